# Every target works from a clean clone on Debian 12 or 13 with
#     apt install git make python3-venv default-jre-headless
# It makes its own .venv and installs what it needs from PyPI, once.

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
PIP_INSTALL := $(PYTHON) -m pip install --quiet --disable-pip-version-check
# Every file that pip downloads has a checksum in requirements/, the tools of builds included.
PIP_LOCKED := $(PIP_INSTALL) --require-hashes --no-build-isolation --use-pep517 --requirement
UV := .cache/uv
COMPILE := $(UV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"
COMPILE_PINNED := $(COMPILE) --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test foreign test-long test-spark readers quick test-elsewhen check bench bench-peers fuzz spec campaign incidents mutants fleet fleet-small format reference lock pictures newcomer release release-tried release-twice release-repositories clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-programs ## the whole pipeline on this machine, for a minute: logs in, programs killed, every line counted; ARGS="--keep-running"
	@$(VENV)/bin/penstock demo $(ARGS)

test: $(VENV)/.installed-development ## all tests, in random order; ARGS="-k name" for some, "--of=MODULE.py" for those of a module, ARGS="--forks=0" in one process, ARGS="--costs=40" what costs most
	@$(if $(findstring tests/,$(ARGS))$(findstring --of,$(ARGS)),,$(PYTHON) -m tests.runner.foreign_tools)
	PYTHONDONTWRITEBYTECODE= PYTHONMALLOC=pymalloc $(PYTHON) -m pytest --forks $$(($$(nproc) * 4)) $(ARGS)

foreign: $(VENV)/.installed-development ## download and build the foreign programs that tests put beside Penstock; make test does it, too
	@$(PYTHON) -m tests.runner.foreign_tools

test-long: $(VENV)/.installed-development ## the tests that make test leaves out: playbooks, foreign servers, kills at every step; an hour
	@$(PYTHON) -m tests.runner.foreign_tools
	PYTHONDONTWRITEBYTECODE= PYTHONMALLOC=pymalloc $(PYTHON) -X dev -m pytest --long -m long --forks $$(nproc) $(ARGS)

quick: $(VENV)/.installed-development ## the tests of files that start no program: a minute
	HYPOTHESIS_PROFILE=quick PYTHONDONTWRITEBYTECODE= PYTHONMALLOC=pymalloc $(PYTHON) -m pytest -q --quick --forks $$(($$(nproc) * 4)) $(ARGS)

test-spark: $(VENV)/.installed-development ## the loader's tests with the older versions of PySpark, in environments that are kept in .cache; make test-long does it, too
	PYTHONMALLOC=pymalloc $(PYTHON) -m pytest --long -m long tests/loader/spark/test_versions.py $(ARGS)

readers: $(VENV)/.installed-development ## docs/how-to/read-with-spark.md: tries again which programs read a table after a change of its schema
	PENSTOCK_WRITE_READERS=1 PYTHONMALLOC=pymalloc $(PYTHON) -m pytest --long -m long tests/system/loader/readers $(ARGS)

test-elsewhen: $(VENV)/.installed-development ## the tests at other dates, in other time zones, in a Turkish locale: hours; ARGS="leap-day", ARGS="--help"
	PYTHONDONTWRITEBYTECODE= PYTHONMALLOC=pymalloc $(PYTHON) -m tests.elsewhen $(ARGS)

check: $(VENV)/.installed-development ## formatting, lint, types, the direction of imports, what make reference writes, the collection for Ansible
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) -m docs.reference --check
	@.ci/cost lines
	@$(PYTHON) -m docs.pictures --check || true # .ci/run fails: docs/decisions/0153-pictures-carry-what-they-show.md
	cd deploy/ansible && $(CURDIR)/$(VENV)/bin/yamllint --strict .
	mkdir -p .cache/ansible/collections/ansible_collections/penstock
	ln -sfn $(CURDIR)/deploy/ansible .cache/ansible/collections/ansible_collections/penstock/pipeline
	cd deploy/ansible && PATH="$(CURDIR)/$(VENV)/bin:$$PATH" ANSIBLE_HOME="$(CURDIR)/.cache/ansible" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/.cache/ansible/collections" $(CURDIR)/$(VENV)/bin/ansible-lint -q

bench: $(VENV)/.installed-development ## measurements side by side with Apache Kafka; ARGS="--help" for more
	$(PYTHON) -m bench $(ARGS)

bench-peers: $(VENV)/.installed-development ## what the agent is measured beside and no package installs: Filebeat built, syslog-ng unpacked; ARGS="syslog-ng" for one
	nice $(PYTHON) -m bench.peers $(ARGS)

fuzz: $(VENV)/.installed-development ## the long profile: property tests and crashes, for hours
	HYPOTHESIS_PROFILE=fuzz $(PYTHON) -m pytest --timeout=0 --long -m "hypothesis or fuzz" $(ARGS)

spec: $(VENV)/.installed-development ## the specification of replication, searched for half an hour; ARGS="--seconds 7200", "--flaw no-raise", "--help"
	@$(PYTHON) -m tests.spec $(ARGS)

campaign: $(VENV)/.installed-development ## seeds of trouble, with a judge: the verdict, attackers, clusters, groups, mirrors, restarts, systemd's journal, the whole pipeline; ARGS="witness --runs 500", "--help"
	@$(PYTHON) -m tests.campaigns $(ARGS)

incidents: $(VENV)/.installed-development ## as root: twelve incidents on a running pipeline, with docs/incidents.md and its pictures made from them; 25 minutes; ARGS="silent-host" for one
	@nice $(PYTHON) -m tests.incidents $(ARGS)

mutants: $(VENV)/.installed-development ## do the tests notice changes of the programs? Sixty drawn ones, each with the tests of its package: 45 minutes; ARGS="--only agent", "--help"
	nice $(PYTHON) -m tests.mutants $(ARGS)

fleet: $(VENV)/.installed-development ## as root: hosts that boot systemd, the collection installed on them by ssh; PENSTOCK_ANSIBLE=/where/ansible/bin, ARGS="-k whole"
	PYTHONMALLOC=pymalloc PENSTOCK_FLEET=1 $(PYTHON) -X dev -m pytest tests/fleet -p no:randomly $(ARGS)

fleet-small: $(VENV)/.installed-development ## the least of that, as root: two empty hosts become a site, once more changes nothing, every line arrives
	PYTHONMALLOC=pymalloc PENSTOCK_FLEET=small $(PYTHON) -X dev -m pytest tests/fleet/test_whole.py -k "not setting" -p no:randomly $(ARGS)

format: $(VENV)/.installed-development ## let ruff put the code into form
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

reference: $(VENV)/.installed-development ## what is made from the code: tables of keys in docs/, completion, pages of roles, docs/code-map.md
	@$(PYTHON) -m docs.reference

lock: ## after a change of constraints.txt: requirements/, its versions with the checksums of their files, as uv finds them on PyPI
	@test -e $(UV)/bin/uv || { $(PYTHON3) -m venv $(UV) && $(UV)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8; }
	printf 'hatchling\nsetuptools\n' | $(COMPILE_PINNED) --output-file requirements/build.txt -
	$(COMPILE_PINNED) --extra all --output-file requirements/all.txt pyproject.toml
	$(COMPILE_PINNED) --extra all --extra development --output-file requirements/development.txt pyproject.toml
	printf 'duckdb\npandas\npolars\npyarrow\npyiceberg[sql-sqlite]\n' | $(COMPILE_PINNED) --output-file requirements/readers.txt -
	for version in 3.5 4.0 4.1 4.2; do printf "pyspark==$$version.*\n" | $(COMPILE) --output-file requirements/pyspark-$$version.txt - || exit; done

pictures: $(VENV)/.installed-development ## the pictures of the README, taken of the present page and commands: two minutes; needs Chromium, and root or user namespaces
	nice $(PYTHON) -m docs.pictures $(ARGS)

newcomer: ## as root: what the README promises, tried in a minimal Debian made by debootstrap; ARGS="--system trixie", ARGS="--test" for make test too
	@$(PYTHON3) -m deploy.newcomer $(ARGS)

release: $(VENV)/.installed-development ## what hosts install, into dist/release; ARGS="--for-ansible" for what Ansible needs on this processor, "--spark" for loaders, "--help"
	nice $(PYTHON) -m deploy.bundle --out dist/release $(ARGS)

release-tried: $(VENV)/.installed-development ## as root: dist/release in systems without Python, shipping lines over TLS; ARGS="--system buster", "--system arm64", "--help"
	@$(PYTHON) -m tests.bundle --release dist/release $(ARGS)

release-twice: $(VENV)/.installed-development ## is dist/release the same, byte by byte, when its commit is built once more elsewhere?
	nice $(PYTHON) -m tests.bundle.twice --release dist/release $(ARGS)

release-repositories: $(VENV)/.installed-development ## repositories for apt and dnf with the packages of dist/release, into dist/repositories; ARGS="--key KEY"
	nice $(PYTHON) -m deploy.bundle.packages.repositories --release dist/release --out dist/repositories $(ARGS)

clean: ## remove everything that was made here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache dist build wire/_*.so columns/_*.so broker/*/*/_*.so agent/*/*/_*.so

$(PYTHON):
	$(PYTHON3) -m venv $(VENV)

# PySpark is the loader's, and carries the jars of ZooKeeper: the largest part of the download.
# Where there is a C compiler, the modules in C are compiled as well.
$(VENV)/.installed-programs: pyproject.toml requirements/build.txt requirements/all.txt hatch_build.py $(wildcard wire/*.[ch] columns/*.[ch] broker/*/*/*.c agent/*/*/*.c) | $(PYTHON)
	@echo "Installing Penstock and PySpark (455 MB) into $(VENV): once, and some minutes long"
	@$(PIP_LOCKED) requirements/build.txt
	@$(PIP_LOCKED) requirements/all.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Where there are a C compiler, Python's headers and Kerberos', what logs in by tickets is compiled.
PYTHON_H := $(shell $(PYTHON3) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
KERBEROS := $(shell command -v cc >/dev/null && command -v krb5-config >/dev/null && test -e $(PYTHON_H) && echo gssapi)

$(VENV)/.installed-development: requirements/development.txt $(VENV)/.installed-programs
	@echo "Installing the tools for tests and checks into $(VENV)"
	@$(PIP_LOCKED) requirements/development.txt
	@$(if $(KERBEROS),$(PIP_INSTALL) --constraint constraints.txt $(KERBEROS))
	@touch $@
