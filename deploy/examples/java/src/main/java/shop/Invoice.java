package shop;

/** An invoice that was issued. Published as an event in the transaction that stores it. */
public record Invoice(String number, String recipient, byte[] pdf) {}
