package shop;

import java.util.List;

/** Postrider refused the request. Calling again does not help: the record or the program has to be corrected. */
public class InvalidEmail extends RuntimeException {
    private final List<String> violations;

    public InvalidEmail(List<String> violations) {
        super(String.join("; ", violations));
        this.violations = violations;
    }

    public List<String> violations() {
        return violations;
    }
}
