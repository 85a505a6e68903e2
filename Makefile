# make            what there is
# make demo       the main job, on a fresh machine too
# make test       all tests, on a fresh machine too
SHELL := /bin/bash
PYTHON := .venv/bin/python
# More workers than cores: most tests wait for a client, a timer or a process most of the time. Four of them left a
# third of two cores idle.
WORKERS ?= 5
# Each worker imports all tests. Without their bytecode that takes 41 s of a core, with it 10: it is kept also where
# PYTHONDONTWRITEBYTECODE is set, and made once, by two processes, before the first workers begin.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest
TESTS_COMPILED := .cache/tests-compiled
EXAMPLES ?= 20
# Well-formed requests in any order to one broker: a minute for 50,000 of them, where there is nothing else to do.
REQUESTS ?= 1000000
# For each parser, where atheris is installed.
GUIDED_SECONDS ?= 60
SUITES ?= kafka-python aiokafka franz-go
ECOSYSTEM_SUITES ?= kafka-go sarama librdkafka-classic librdkafka-consumer
# Of faults; CHAOS takes further arguments of chaos.run, such as --seed 7.
CHAOS_SECONDS ?= 300
CHAOS ?=
# Of chaos-spark, which takes further arguments of chaos.spark_once, such as CHAOS="--kills 40 --seed 7".
SPARK_ROWS ?= 100000
# Two hours; SOAK takes further arguments of soak.run, such as --seed 7.
SOAK_SECONDS ?= 7200
SOAK ?=
# Arguments of soak.crowd and soak.siege, such as --connections 1000.
CROWD ?=
SIEGE ?=
# Arguments of upgrade.rolling, such as --group-protocol consumer.
UPGRADE ?=
# Tests of benchmarks.partitions (shutdown, failover, many), and its options, such as --divisor 10.
PARTITIONS ?=
# Seeds of ten simulated minutes each; SIMULATE takes further arguments of simulator.campaign, such as --seed 7.
SEEDS ?= 300
SIMULATE ?=
# Of the seeds so many are run twice, with two hash seeds.
TWINS ?= 20
# One of so many parts of all runs with a fault at one step; the day names the part. EXPLORE takes options of `kavka simulate`.
EXPLORE_PARTS ?= 600
EXPLORE ?= --explore all --minutes 5 --part $(shell expr $$(date +%s) / 86400 % $(EXPLORE_PARTS))/$(EXPLORE_PARTS)

# Options of tests.mutation.run: a CI with five minutes a day takes MUTANTS="--part today/400 --minutes 5".
MUTANTS ?=

.DEFAULT_GOAL := help
.PHONY: help setup check release-check test unit conformance upstream ecosystem demo site serve-site playground serve-playground bench bench-cluster bench-console bench-growth bench-partitions bench-share bench-spark chaos chaos-spark soak crowd siege upgrade simulate explore mutants fuzz kill9 messages picture clean

help: ## the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## lays .venv with kavka in it, and the system packages that tests need
	@tools/setup.sh

check: setup ## format, lint, types, the rooms' borders and their picture, the table of settings, references in docs and code, sizes, where a broker halts
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PYTHON) tools/config_reference.py --check
	@$(PYTHON) tools/dependency_picture.py --check
	@$(PYTHON) tools/references.py
	@$(PYTHON) tools/sizes.py
	@$(PYTHON) tools/invariants.py

test: setup $(TESTS_COMPILED) ## all tests that belong to every change
	@$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: setup $(TESTS_COMPILED) ## the quick ones: no process, no socket
	@$(PYTEST) -n $(WORKERS) tests/unit tests/property

$(TESTS_COMPILED): | setup
	@mkdir -p $(@D)
	@$(PYTEST) --collect-only -qq tests/unit tests/property > /dev/null 2>&1 & \
	  $(PYTEST) --collect-only -qq $(filter-out tests/unit/ tests/property/,$(wildcard tests/*/)) > /dev/null 2>&1 & \
	  wait; touch $@

conformance: setup ## every client and Apache Kafka itself beside kavka; writes the tables of docs/clients.md
	@tools/setup_kerberos.sh
	@KAVKA_ALL_CLIENTS=1 $(PYTHON) -m pytest tests/conformance tests/integration/cli tests/integration/client \
	  tests/integration/cluster tests/integration/console tests/integration/documentation tests/integration/settings \
	  tests/integration/security tests/integration/spark tests/integration/tls tests/integration/zookeeper \
	  --junitxml=.cache/conformance.xml; status=$$?; \
	  $(PYTHON) tools/client_matrix.py record .cache/conformance.xml || status=1; \
	  $(PYTHON) tools/tool_table.py record .cache/conformance.xml || status=1; \
	  KAVKA_ALL_CLIENTS=1 $(PYTHON) -m pytest -m thorough tests/chaos tests/simulation tests/unit tests/upgrade || status=1; exit $$status

upstream: setup ## the integration tests of kafka-python, aiokafka and franz-go against kavka; SUITES=aiokafka for one of them
	@$(PYTHON) -m tests.conformance.upstream.run $(SUITES)

ecosystem: setup ## Kafka Connect, MirrorMaker 2 and clients' own tests, as published, on kavka and on Apache Kafka
	@KAVKA_ECOSYSTEM=1 $(PYTHON) -m pytest tests/ecosystem; status=$$?; \
	  for against in kavka kafka; do \
	    $(PYTHON) -m tests.conformance.upstream.run --against $$against $(ECOSYSTEM_SUITES) || status=1; \
	  done; exit $$status

demo: setup ## three brokers, 336,776 real records in and out, a leader killed, a follower stopped, a pipeline on Spark, nothing lost
	@$(PYTHON) -m demo.demo

bench: setup ## kavka beside Apache Kafka, in turn, with ratios (an hour)
	@$(PYTHON) -m benchmarks.run

bench-cluster: setup ## three brokers of each in turn: throughput, failover, 10,000 partitions (over an hour)
	@$(PYTHON) -m benchmarks.cluster

bench-share: setup ## share groups of kavka and of Apache Kafka 4.3, in turn: one broker, then three with the leader killed (a quarter of an hour)
	@$(PYTHON) -m benchmarks.run share
	@$(PYTHON) -m benchmarks.cluster share --peer kraft

bench-partitions: setup ## five brokers with 50,000 to 200,000 replicas: shutdown, failover, start, memory (long; PARTITIONS="--divisor 10")
	@$(PYTHON) -m benchmarks.partitions $(PARTITIONS)

bench-growth: setup ## what each connection, partition, group, member, topic, replica and record costs when there are many (ten minutes)
	@$(PYTHON) -m benchmarks.growth

bench-spark: setup ## kavka's Spark source beside Spark's own Kafka connector, in turn in one session (more than half an hour)
	@$(PYTHON) -m benchmarks.spark --keep

bench-console: setup ## the console under 500 tabs, 200 visitors, 100 abandoned searches and 40 slow bodies: pages, memory (half a minute, on a quiet machine)
	@KAVKA_CONSOLE_LOAD=1 KAVKA_ALL_CLIENTS=1 $(PYTHON) -m pytest -n 0 -q -s tests/integration/console/test_console_load.py

chaos: setup ## three and five brokers under faults for CHAOS_SECONDS, and a checker of what their clients saw
	@$(PYTHON) -m tests.chaos.run --seconds $(CHAOS_SECONDS) $(CHAOS)

chaos-spark: setup ## SPARK_ROWS rows through Spark, exactly once, while machines, drivers, workers and brokers come, go and are killed
	@$(PYTHON) -m tests.chaos.spark_once --rows $(SPARK_ROWS) $(CHAOS)

soak: setup ## mixed load with faults for SOAK_SECONDS: memory, descriptors, threads, log bytes and latency must not grow
	@$(PYTHON) -m tests.soak.run --seconds $(SOAK_SECONDS) $(SOAK)

crowd: setup ## 10,000 connections that never log in, of nine kinds: memory of each, descriptors, and how soon a good client gets in (half an hour)
	@$(PYTHON) -m tests.soak.crowd $(CROWD)

siege: setup ## three secured brokers under all bad input at once, while good clients write, read and log in: nothing lost, nobody in, memory flat
	@$(PYTHON) -m tests.soak.siege $(SIEGE)

upgrade: setup ## what earlier builds left on disk; a cluster under load that goes from an earlier build to this one and back
	@KAVKA_ALL_CLIENTS=1 $(PYTHON) -m pytest tests/upgrade
	@$(PYTHON) -m tests.upgrade.rolling $(UPGRADE)

simulate: setup ## SEEDS simulated clusters under faults on all cores, every rule checked after every step; figures and targets
	@$(PYTHON) -m kavka.simulator.runs.campaign --seeds $(SEEDS) --twins $(TWINS) --mutants tests.simulation.mutant_report \
	  $(SIMULATE)

explore: setup ## one fault at one step of a short story in each run, five minutes of another part each day
	@.venv/bin/kavka simulate $(EXPLORE)

mutants: setup ## one change at a time in the code that decides, and a test must notice; hours, and goes on where it was stopped
	@$(PYTHON) -m tests.mutation.run $(MUTANTS)

fuzz: setup ## malformed requests for every API; a million well-formed ones in any order; every parser, by coverage too; properties with EXAMPLES times their examples
	@$(PYTHON) tools/fuzz_protocol.py
	@$(PYTHON) -m tests.fuzz.sequences.run --requests $(REQUESTS)
	@$(PYTHON) -m tests.fuzz.sequences.run --virtual --seeds 100
	@$(PYTHON) -m tests.fuzz.sequences.mutants
	@$(PYTHON) -m tests.fuzz.property_mutants
	@$(PYTHON) -m tests.fuzz.unauthenticated
	@$(PYTHON) -m tests.fuzz.parsers --inputs 100000
	@$(PYTHON) -m tests.fuzz.guided --seconds $(GUIDED_SECONDS)
	@KAVKA_EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest -n $(WORKERS) --timeout 7200 tests/property tests/unit/replication tests/unit/controller

kill9: setup ## kill -9 under load, many times
	@KAVKA_KILLS=100 $(PYTHON) -m pytest tests/integration/durability

messages: setup ## writes src/kavka/protocol/messages anew from the kafka-clients jars
	@$(PYTHON) tools/generate_messages.py

release-check: ## builds what would be published, twice, and uses it from empty environments; files in dist/
	@python3 tools/release_check.py

site: setup ## the documentation as a site, with the playground: build/site, static files
	@$(PYTHON) tools/site.py

serve-site: setup ## the same, shown on http://127.0.0.1:8000
	@$(PYTHON) tools/site.py --serve

playground: setup ## the cluster in a page: build/site/play and build/site/learn, static files that any web server can show
	@$(PYTHON) playground/build.py

serve-playground: playground ## the same, shown on http://127.0.0.1:8000/play/
	@$(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site 8000

picture: setup ## draws the imports between the rooms into ARCHITECTURE.md
	@$(PYTHON) tools/dependency_picture.py

clean: ## all that is made here
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache build dist
