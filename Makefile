# One runner that people and CI share. Every target does its own set-up and is quick when nothing changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
MATURIN := PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin
export CARGO_BUILD_JOBS ?= 2
# `make build PROFILE=quick` while working on Rust: optimised, but not across crates.
PROFILE ?= release
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock
# Without compiled modules every start of a broker compiles them anew: half a second.
unexport PYTHONDONTWRITEBYTECODE
# Real test data, where there is some.
ifneq ($(wildcard ../shared/data),)
export OTTLA_TEST_DATA ?= $(abspath ../shared/data)
endif

# The crate as `cargo test` compiles it, with its assertions and without optimisation, among the dependencies that
# PROFILE=quick has: those are compiled once.
CHECKED := cargo --config profile.quick.package.ottla-core.opt-level=0 \
	--config profile.quick.package.ottla-core.debug-assertions=true

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find rust -name '*.rs')

.DEFAULT_GOAL := help
.PHONY: help build release run docs demo cluster test test-rust test-rust-python test-python test-leases-off judges quick stress tsan clients clients-tools mutants mutants-changed next packages soak bench bench-full bench-limits bench-cluster bench-flames bench-guard bench-hostile bench-mirror bench-parts bench-spark lint deny fmt wheel wheels sdist licences dashboard clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMPS)/venv:
	@mkdir -p $(STAMPS)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; say which with PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	# The pip that comes with Python 3.11 computes twice as long.
	$(BIN)/pip install --quiet --upgrade pip
	@touch $@

$(STAMPS)/maturin: $(STAMPS)/venv requirements.lock
	$(BIN)/pip install --quiet maturin
	@touch $@

# What `pip install` is given for the package, if it comes with these extras.
requirements = $$($(BIN)/python -c 'import sys, tomllib; \
	project = tomllib.load(open("pyproject.toml", "rb"))["project"]; extras = project["optional-dependencies"]; \
	print(*project["dependencies"], *(name for extra in sys.argv[1:] for name in extras[extra]))' $(1))
EXTRAS := spark plot metrics passwords pipelines tables
EMPTY :=
COMMA := ,

# The native module, and the package itself in editable form with what users need. The stamp says which profile it has.
$(STAMPS)/build: $(STAMPS)/maturin pyproject.toml $(RUST_SOURCES)
	$(MATURIN) develop --quiet --profile $(PROFILE) --locked --extras $(subst $(EMPTY) $(EMPTY),$(COMMA),$(EXTRAS))
	@echo $(PROFILE) > $@

# Benchmarks and judges take the module that users get.
release: $(STAMPS)/build
	@[ "$$(cat $<)" = release ] || { rm $< && $(MAKE) PROFILE=release $<; }

$(STAMPS)/lint-tools: $(STAMPS)/build
	$(BIN)/pip install --quiet $(call requirements,lint)
	@touch $@

$(STAMPS)/test-tools: $(STAMPS)/build
	$(BIN)/pip install --quiet $(call requirements,test)
	@touch $@

# Everything from elsewhere for the three targets above, which find it in place: CI fetches it while cargo compiles.
packages: $(STAMPS)/maturin
	$(BIN)/pip install --quiet $(call requirements,$(EXTRAS) lint test)

# Somebody else's client, for the demonstration.
$(STAMPS)/demo-tools: $(STAMPS)/build
	$(BIN)/pip install --quiet confluent-kafka
	@touch $@

build: $(STAMPS)/build ## .venv with the package, its native module (release) and the spark extra

run: $(STAMPS)/build ## one broker at 127.0.0.1:9092 with its data in ./data
	@$(BIN)/ottla serve --data-dir data --log-level warning --hints

# An access log in the combined format: FILE=access.log; without one, the real one of the test data, else an invented one.
FILE ?= $(wildcard $(OTTLA_TEST_DATA)/web_access.log)
REPEAT ?= 300
demo: $(STAMPS)/demo-tools ## web requests through a broker into Spark, and a picture: FILE=access.log REPEAT=300
	@$(BIN)/python -m ottla.pipelines.demo --repeat $(REPEAT) $(if $(FILE),--file "$(FILE)")
	@$(if $(wildcard $(OTTLA_TEST_DATA)/nginx_ops.jsonl),$(BIN)/python -m ottla.pipelines.demo.three --data $(OTTLA_TEST_DATA))

docs: $(STAMPS)/lint-tools ## rewrite the pages of docs/, and the signatures, that come from the code
	$(BIN)/python -m ottla.config.reference > docs/settings.md
	$(BIN)/python docs/compatibility.py > docs/compatibility.md
	$(BIN)/python docs/states.py > docs/states.md
	$(BIN)/python -m ottla.metrics.reference > docs/metrics.md
	$(BIN)/python -m ottla.metrics.alerts > docs/alerts.yml
	$(BIN)/python -m ottla.client.sync_stub
	$(BIN)/python -m ottla.client.aio_stub

# CLUSTER_ARGS="--zookeeper HOST:PORT" for a ZooKeeper that is there.
cluster: $(STAMPS)/build ## three brokers: one is killed, and every acknowledged record is looked for
	@$(BIN)/python -m ottla.local_cluster.demo $(CLUSTER_ARGS)

lint: $(STAMPS)/lint-tools $(STAMPS)/test-tools ## rustfmt, clippy, ruff, mypy, stubs, import directions
	cargo fmt --check
	$(BIN)/ruff check python tests benches examples
	$(BIN)/ruff format --check python tests benches examples
	$(BIN)/mypy
	MYPYPATH=$(subst $(EMPTY) $(EMPTY),:,python $(wildcard examples/*/)) $(BIN)/mypy --follow-imports=silent examples/*/*.py
	$(BIN)/python -m tests.stubtest
	$(BIN)/lint-imports
	$(BIN)/python -m tests.test_imports
	$(CHECKED) clippy --quiet --locked --profile quick --all-targets --features guard -- -D warnings

$(STAMPS)/cargo-deny:
	cargo install --quiet --locked --root .tools cargo-deny@0.20.2
	@touch $@

# Known faults are in a database that is fetched each time.
deny: $(STAMPS)/cargo-deny ## licences, origins and known faults of all crates (deny.toml): CHECK="licenses sources bans" without the network
	.tools/bin/cargo-deny --all-features --locked check $(CHECK)

fmt: $(STAMPS)/lint-tools ## format everything
	cargo fmt
	$(BIN)/ruff check --fix python tests benches examples
	$(BIN)/ruff format python tests benches examples

test: test-rust test-python ## every test, with one judge of each kind

test-rust:
	$(CHECKED) test --quiet --locked --profile quick --no-default-features

# Those of rust/py, which need an interpreter and a second build of the crate; `make judges` runs them.
test-rust-python: $(STAMPS)/venv
	LD_LIBRARY_PATH=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))') PYO3_PYTHON=$(abspath $(BIN))/python \
		$(CHECKED) test --quiet --locked --profile quick --lib -- py::

# Other people's clients and Apache Kafka, as judges: old releases of confluent-kafka in environments of their own, kcat
# from Debian, Kafka's jars from Maven Central. What cannot be had here is skipped by the tests, which say so.
CONFLUENT := 2.6.0 2.8.0
KAFKAS := 2.7.2 3.9.2 4.3.1

$(STAMPS)/confluent-%:
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv .venvs/confluent-$*
	PIP_CONSTRAINT= .venvs/confluent-$*/bin/pip install --quiet --only-binary :all: confluent-kafka==$*
	@touch $@

# What Spark Connect and declarative pipelines need of Python; pandas would change what every other test runs with.
$(STAMPS)/connect:
	@mkdir -p $(STAMPS)
	PIP_CONSTRAINT= $(PYTHON) -m pip install --quiet --only-binary :all: --target .venvs/connect 'pandas<3' grpcio grpcio-status \
	    googleapis-common-protos pyyaml
	@touch $@

$(STAMPS)/kcat:
	@mkdir -p $(STAMPS)
	@if ! command -v kcat >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y kcat >/dev/null; fi
	@if command -v kcat >/dev/null; then touch $@; else echo "kcat is absent, its tests are skipped: apt-get install kcat"; fi

# For clusters whose clocks differ.
$(STAMPS)/faketime:
	@mkdir -p $(STAMPS)
	@if ! ls /usr/lib/*/faketime >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y libfaketime >/dev/null || true; fi
	@if ls /usr/lib/*/faketime >/dev/null 2>&1; then touch $@; \
	    else echo "libfaketime is absent, tests of wrong clocks are skipped: apt-get install libfaketime"; fi

# Only the tool, without the server that its package starts.
$(STAMPS)/promtool:
	@mkdir -p $(STAMPS) .venvs/promtool
	@if ! command -v promtool >/dev/null && command -v apt-get >/dev/null; then \
	    if [ "$$(id -u)" = 0 ]; then apt-get update -qq; fi; \
	    cd .venvs/promtool && apt-get download -qq prometheus 2>/dev/null && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; fi || true
	@if [ -x .venvs/promtool/usr/bin/promtool ] || command -v promtool >/dev/null; then touch $@; \
	    else echo "promtool is absent, tests of the alerts are skipped: apt-get install prometheus"; fi

$(STAMPS)/jars: tests/peers/pom.xml tests/peers/kafka
	@mkdir -p $(STAMPS)
	@if command -v java >/dev/null && command -v mvn >/dev/null; then tests/peers/kafka fetch $(KAFKAS) && touch $@; \
	    tests/peers/kafka archive $(KAFKAS) || echo "there are no archives of Kafka's classes: it starts more slowly"; \
	    else echo "Java or Maven is absent, their tests are skipped: apt-get install openjdk-17-jdk-headless maven"; fi

clients-tools: $(CONFLUENT:%=$(STAMPS)/confluent-%) $(STAMPS)/kcat $(STAMPS)/faketime $(STAMPS)/promtool $(STAMPS)/jars

# CI's has a second chance (tests/second_chance.py), and says what took longest.
PYTEST ?= $(BIN)/pytest
GATE := not soak and not judge

# Tests wait as long as they compute: four processes keep two processors busy.
PROCESSES ?= 4

test-python: $(STAMPS)/test-tools clients-tools
	$(PYTEST) -m '$(GATE)' -n $(PROCESSES)

# The same answers where Python decides about every Produce and Fetch. The judges run the parts that leases serve.
PARTS ?= tests/broker tests/compat tests/faults
test-leases-off: $(STAMPS)/test-tools clients-tools ## tests of the broker without leases: PARTS="tests/broker/produce/test_turns.py"
	OTTLA_LEASES=off $(PYTEST) -m '$(GATE)' -n $(PROCESSES) $(PARTS)

# ONLY="compat cluster" some parts, ARGS=--continue those that are not green yet.
judges: release $(STAMPS)/test-tools clients-tools ## every test with every judge, part by part: ONLY="compat cluster", ARGS=--continue
	$(BIN)/python -m tests.judges $(ARGS) $(ONLY)

quick: $(STAMPS)/lint-tools $(STAMPS)/test-tools ## before a commit: lint of the changed files, tests of the changed rooms
	$(BIN)/python -m tests.quick

# Tests that assume a machine of their own fail here.
stress: $(STAMPS)/test-tools clients-tools ## every Python test that CI runs, beside two busy processes
	@busy() { while :; do :; done; }; busy & one=$$!; busy & two=$$!; \
	trap "kill $$one $$two" EXIT; $(MAKE) test-python

clients: $(STAMPS)/test-tools clients-tools ## all clients against the broker, and their table in docs/clients.md
	OTTLA_WRITE_TABLE=1 $(BIN)/pytest tests/compat/test_clients.py tests/compat/test_tools.py

# Seeds come from the time and are printed by what fails; CASES=1 OTTLA_SEED=... runs one again.
CASES ?= 3000
TSAN ?= net:: direct::
soak: release $(STAMPS)/test-tools $(STAMPS)/connect clients-tools ## long runs: thousands of seeds (CASES=3000), whole matrices, mutants
	OTTLA_CASES=$(CASES) cargo test --quiet --locked --profile quick --no-default-features --lib log::
	$(BIN)/python -m tests.faults.mutants log.
	$(MAKE) tsan
	OTTLA_TEST_STARTS=own $(BIN)/pytest -m soak
	OTTLA_TEST_STARTS=own OTTLA_TAKEOVER_MB=1024 $(BIN)/pytest tests/compat/test_takeover.py

# Needs a nightly toolchain with the component rust-src. Fails where two threads touch memory without order between them.
tsan: ## ThreadSanitizer over the parts of Rust that threads share, and the standard library: TSAN="net:: direct::tests"
	TSAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --target-dir target/tsan \
		--quiet --locked --no-default-features --lib -- $(TSAN)

mutants: $(STAMPS)/test-tools clients-tools ## break the project on purpose, one promise at a time: the tests must notice (MUTANTS="log. broker.")
	$(BIN)/python -m tests.faults.mutants $(MUTANTS)

# Of the files that the newest 20 commits changed, newest first, as many as 3 minutes allow.
mutants-changed: $(STAMPS)/test-tools ## the same for what the newest commits changed, 3 minutes at most
	$(BIN)/python -m tests.faults.mutants --changed-since "$$(git rev-list --max-count=20 HEAD | tail -n 1)" --minutes 3

# What pyproject.toml bounds from above, in its newest release: says early what the next one breaks.
next: $(STAMPS)/test-tools ## the tests of what uses the inside of trio and kazoo, with their newest releases
	rm -rf .venvs/next && mkdir -p .venvs
	PIP_CONSTRAINT= $(BIN)/pip install --quiet --target .venvs/next --upgrade trio kazoo
	PYTHONPATH=.venvs/next $(BIN)/python -c 'import trio, kazoo.version; print("trio", trio.__version__, "kazoo", kazoo.version.__version__)'
	PYTHONPATH=.venvs/next $(BIN)/pytest -q tests/net tests/coordination

# AGAINST=none measures this broker alone; ARGS="--only small-requests" some of it, ARGS=--continue what is missing.
AGAINST ?= 3.9.2,4.3.1
ARGS ?=
bench: release $(STAMPS)/bench-tools ## this broker beside Apache Kafka, into docs/benchmarks/: AGAINST=3.9.2,4.3.1 ARGS="--only NAME"
	$(BIN)/python benches/compare.py --against $(AGAINST) --minutes 40 $(ARGS)

bench-full: release $(STAMPS)/bench-tools ## the same with whole sweeps and the cases that take long: hours
	$(BIN)/python benches/compare.py --against $(AGAINST) --full $(ARGS)

bench-cluster: release $(STAMPS)/bench-tools ## three brokers, RF 3, beside Kafka 3.9.2 with ZooKeeper (make bench has it too)
	$(BIN)/python benches/cluster.py $(ARGS)

bench-limits: release $(STAMPS)/bench-tools ## this broker beside what the machine can do, and its costs as things grow by 10 and 100
	$(BIN)/python benches/limits.py $(ARGS)

$(STAMPS)/inferno:
	cargo install --quiet --locked --root .tools --no-default-features --features cli inferno@0.12.8
	@touch $@

bench-flames: release $(STAMPS)/bench-tools $(STAMPS)/inferno ## where the broker's time goes, as flame graphs in docs/benchmarks/: ARGS="fetch end-to-end"
	INFERNO=.tools/bin $(BIN)/python benches/flames.py $(ARGS)

# Needs valgrind. The baseline is benches/guard.json; ARGS=--save writes it anew.
bench-guard: $(STAMPS)/bench-tools ## instructions of hot functions (3 %), CPU of requests (35 %): fails where one costs so much more than it did
	$(BIN)/python benches/guard.py $(ARGS)

bench-hostile: release $(STAMPS)/bench-tools ## an honest client beside hostile ones: fails where it waits long or memory grows; ARGS="--only TEXT --seconds N"
	$(BIN)/python benches/hostile.py $(ARGS)

bench-mirror: release $(STAMPS)/bench-tools ## mirroring beside MirrorMaker 2: fails where a goal is missed; ARGS="--rounds N --records N"
	$(BIN)/python benches/mirror.py $(ARGS)

bench-parts: release $(STAMPS)/bench-tools ## the log, the batches, the hub and Spark's source alone, on this machine
	cargo bench --quiet --no-default-features --bench records
	cargo bench --quiet --no-default-features --bench log
	cargo bench --quiet --no-default-features --bench cleaner
	$(BIN)/python benches/wire.py
	$(BIN)/python benches/net_hub.py
	$(BIN)/python benches/spark_read.py
	$(BIN)/python benches/spark_stream.py

bench-spark: release $(STAMPS)/bench-tools ## Spark with Ottla beside Spark's own Kafka connector: ARGS="--only count,write"
	$(BIN)/python benches/spark.py $(ARGS)

# The suite uses the tests' clients and Kafka's jars, and draws.
$(STAMPS)/bench-tools: $(STAMPS)/test-tools clients-tools
	$(BIN)/pip install --quiet matplotlib rich
	@touch $@

WHEEL_PROFILE := release
DIST := dist
COMMIT := python/ottla/commit.txt
# The commit is a file of the wheel: if it were compiled in, all of Rust would be compiled after each commit.
with-commit = trap 'rm -f $(COMMIT)' EXIT; \
	git describe --always --exclude='*' --abbrev=8 --dirty > $(COMMIT) 2> /dev/null || echo unknown > $(COMMIT);
# A released module has no symbols, which are most of its bytes. It is linked in a folder of its own: flame graphs need
# those in target/release.
STRIPPED := --strip --target-dir target/wheel
wheel: $(STAMPS)/maturin ## an abi3 wheel in dist/
	@$(with-commit) $(MATURIN) build --quiet --profile $(WHEEL_PROFILE) --locked --out $(DIST) \
	    $(if $(filter release,$(WHEEL_PROFILE)),$(STRIPPED))

sdist: $(STAMPS)/maturin ## the sources of the package in dist/, which `pip wheel` builds where cargo is
	@$(with-commit) $(MATURIN) sdist --out $(DIST)

# Of each Linux that a release is for: its name among Rust's targets, and what the wheel says of its C library.
WHEELS := x86_64-unknown-linux-gnu:manylinux_2_28 aarch64-unknown-linux-gnu:manylinux_2_28 \
	x86_64-unknown-linux-musl:musllinux_1_2 aarch64-unknown-linux-musl:musllinux_1_2

# Zig compiles C for each of them and has their C libraries; rustup fetches what Rust needs of them.
$(STAMPS)/zig: $(STAMPS)/maturin
	$(BIN)/pip install --quiet ziglang
	@touch $@

wheels: $(STAMPS)/zig ## the wheels of a release in dist/, for each Linux: minutes for each
	rustup target add $(foreach each,$(WHEELS),$(firstword $(subst :, ,$(each))))
	@set -e; $(with-commit) for each in $(WHEELS); do \
	    PATH=$(CURDIR)/$(BIN):$$PATH $(MATURIN) build --quiet --profile release --locked --out $(DIST) --zig $(STRIPPED) \
	        --target $${each%:*} --compatibility $${each#*:}; \
	done

licences: ## THIRD-PARTY-LICENSES.txt, of the crates that are compiled into a wheel
	$(PYTHON) packaging/licences.py > THIRD-PARTY-LICENSES.txt

dashboard: ## packaging/grafana/ottla.json
	$(PYTHON) packaging/grafana/dashboard.py > packaging/grafana/ottla.json

clean: ## remove what was built
	rm -rf target $(VENV) .venvs $(STAMPS) dist
