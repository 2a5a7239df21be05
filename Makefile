# make run        everything on this machine, until Ctrl-C
# make demo       a failover from beginning to end, checked
# make test       every test, on a real Postgres and real peers
# make endurance  processes killed and the database crashed under load, for minutes; prints what was counted
# make check      formatting, lints, documentation, dependencies, SQL, the contract
# make bench      the speed of this build on this machine

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

POSTGRES := /usr/lib/postgresql/*/bin/postgres=postgresql
PEERS := python:aiosmtpd=python3-aiosmtpd python:grpc=python3-grpcio python:grpc_tools=python3-grpc-tools \
	python:dkim=python3-dkim python:nacl=python3-nacl openssl=openssl pgbouncer=pgbouncer \
	nginx=nginx-light
# Only where no other mail server is: installing one removes the other, and the tests that need postfix say that they are
# left out.
PEERS += $(if $(wildcard /usr/sbin/sendmail),,postfix=postfix)

# The SQL macros are checked against the data in .sqlx, whatever database the environment names.
export SQLX_OFFLINE := true

.PHONY: run demo test endurance check bench sqlx

run:
	@.ci/packages "$(POSTGRES)"
	cargo run --locked -- dev

demo:
	@.ci/packages "$(POSTGRES)"
	cargo run --locked -- demo

test:
	@.ci/packages "$(POSTGRES)" $(PEERS)
	cargo test --locked

endurance:
	@.ci/packages "$(POSTGRES)"
	POSTRIDER_TEST_ENDURANCE=long cargo test --locked --test it endurance:: -- --nocapture --test-threads=1

bench:
	@.ci/packages "$(POSTGRES)"
	cargo run --release --locked -- bench

check:
	@.ci/packages "$(POSTGRES)"
	.ci/top-level
	cargo fmt --check
	cargo clippy --locked --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps --document-private-items
	.ci/sqlx --check
	.ci/buf

# Writes the offline data of the SQL macros anew, after a statement or a migration changed.
sqlx:
	@.ci/packages "$(POSTGRES)"
	.ci/sqlx
