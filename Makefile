# Everything a newcomer needs: `make demo`, `make quick` while working, `make test` before a commit. They build .venv from
# the project's own files.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo quick test tests coverage test-integrations heavy distance torture planted portability package paper docs bench lint format clean

# Rebuilt whenever the declared dependencies or the kernel's source change.
.venv/ready: pyproject.toml setup.py $(wildcard src/dpstream/kernel/*.c src/dpstream/kernel/*.h)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

demo: .venv/ready
	$(BIN)/dpstream demo --folder output/demo

# Under a minute on two cores: style, types, and two cases of every test that is fast (tests/conftest.py says which).
quick: .venv/ready lint
	$(BIN)/pytest --quick --numprocesses 2 --quiet

# Lint and types run beside the tests: both cores have something to do.
test: .venv/ready
	$(MAKE) --no-print-directory --jobs 2 lint tests

tests: .venv/ready
	$(BIN)/pytest --numprocesses 2 --dist worksteal

# Which lines and branches the tests reach. Not part of `make test`, which it would make half as long again.
coverage: .venv/ready
	$(BIN)/pytest --numprocesses 2 --cov --cov-report=term

# The adapters with real PyTorch, Opacus, JAX, optax and jax_privacy, in an environment of their own.
INTEGRATIONS := tests/integrations/requirements.txt
.venv-integrations/ready: pyproject.toml setup.py $(INTEGRATIONS) $(wildcard src/dpstream/kernel/*.c src/dpstream/kernel/*.h)
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/pip install --quiet --upgrade pip
	.venv-integrations/bin/pip install --quiet $(shell grep '^torch==' $(INTEGRATIONS))
	.venv-integrations/bin/pip install --quiet --requirement $(INTEGRATIONS) --editable '.[cli]'
	@touch $@

# The page is tested in a real browser, which is installed if it is missing. Spark needs Java 17 or later.
test-integrations: .venv-integrations/ready
	@test -x /usr/bin/chromium || apt-get install --quiet --yes --no-install-recommends chromium \
		|| { apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends chromium; } \
		|| echo "NOT RUN: the page in a browser (tests/integrations/serve, docs): Chromium could not be installed"
	@java -version >/dev/null 2>&1 || apt-get install --quiet --yes --no-install-recommends openjdk-17-jre-headless \
		|| echo "NOT RUN: Spark (tests/integrations/spark): there is no Java and it could not be installed"
	.venv-integrations/bin/pytest tests/integrations src/dpstream/adapters \
		$$(test -x /usr/bin/chromium || echo --ignore tests/integrations/serve --ignore tests/integrations/docs) \
		$$(java -version >/dev/null 2>&1 || echo --ignore tests/integrations/spark)

# What is too slow for every run: ten times the samples, and the known answers once more through the NumPy twin.
heavy: .venv/ready
	DPSTREAM_HEAVY=1 $(BIN)/pytest --numprocesses 2 tests/kernel tests/noise/test_distribution.py tests/store/test_faults.py tests/mechanisms/test_fitted_toeplitz.py
	DPSTREAM_HEAVY=1 $(BIN)/pytest --numprocesses 2 -m heavy
	DPSTREAM_KERNEL=twin $(BIN)/pytest -W ignore::dpstream.kernel.SlowKernelWarning --numprocesses 2 \
		tests/noise/test_known_answers.py tests/noise/test_exact.py

# Every way in compared with neighbouring data, over thousands of histories; `make test` draws a few of each.
distance: .venv/ready .venv-integrations/ready
	DPSTREAM_HEAVY=1 $(BIN)/pytest --numprocesses 2 --dist worksteal tests/distance
	DPSTREAM_HEAVY=1 .venv-integrations/bin/pytest tests/integrations/test_training_distance.py
	! java -version >/dev/null 2>&1 || DPSTREAM_HEAVY=1 .venv-integrations/bin/pytest tests/integrations/spark/test_distance.py

# Kills a writer of the store 300 times and replays its history; then breaks the store on purpose, to see that it shows.
torture: .venv/ready
	$(BIN)/python tests/store/torture.py --kills 300
	$(BIN)/python tests/store/torture.py --kills 60 --sabotage durability
	$(BIN)/python tests/store/torture.py --kills 60 --sabotage noise
	$(BIN)/python -m tests.store.torture_ledger --kills 300
	$(BIN)/python -m tests.store.torture_ledger --kills 30 --sabotage batch
	$(BIN)/python -m tests.store.torture_ledger --kills 30 --sabotage again
	$(BIN)/python -m tests.store.torture_ledger --kills 30 --sabotage people
	$(BIN)/python -m tests.store.torture_names --kills 100
	$(BIN)/python -m tests.store.torture_names --kills 12 --sabotage again
	$(BIN)/python -m tests.store.torture_names --kills 12 --sabotage pairs
	$(BIN)/python -m tests.store.torture_names --kills 6 --sabotage noise
	$(BIN)/python -m tests.integrations.serve.torture_ingest --kills 100
	! $(BIN)/python -m tests.integrations.serve.torture_ingest --kills 8 --sabotage again
	! $(BIN)/python -m tests.integrations.serve.torture_ingest --kills 12 --sabotage early

# Plants bugs in a scratch copy, one at a time; every one must be caught by a test, and most by the audit.
planted: .venv/ready
	$(BIN)/python -m tests.audit.planted

# The same key gives the same noise: compilers, processors, libraries, sanitizers. Twenty minutes, and the table of
# docs/portability.md; quick=1 takes two minutes and writes nothing.
portability: .venv/ready
	$(BIN)/python -m tests.portability.run $(if $(quick),--quick,--write docs/portability.md)

# What a release consists of, in dist/: sdist and wheels, built twice with the same bytes, and a bill of materials.
# Then it is installed and tried: every Python at hand, lowest versions, no compiler, an empty root.
package: .venv/ready
	$(BIN)/python -m tests.package.make_package
	$(BIN)/python -m tests.package.try_package --write docs/portability.md

# Every figure, table and claim of the paper, measured again: output/paper/report.html.
paper: .venv/ready
	$(BIN)/dpstream paper --output output/paper

# The site, in build/site: every page's code runs, every link inside is checked, a warning is an error, and every page is
# looked at in Chromium, if there is one. Offline once the environment stands.
.venv-docs/ready: pyproject.toml setup.py $(wildcard src/dpstream/kernel/*.c src/dpstream/kernel/*.h)
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --upgrade pip
	.venv-docs/bin/pip install --quiet --editable '.[docs]'
	@touch $@

DOCS_PYTHON ?= .venv-docs/bin/python
docs: $(if $(filter .venv-docs/%,$(DOCS_PYTHON)),.venv-docs/ready)
	$(DOCS_PYTHON) -m sphinx --fail-on-warning --keep-going --quiet --jobs 2 --builder html docs build/site
	$(DOCS_PYTHON) docs/_ext/look_at_site.py build/site

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All benchmarks, or some: make bench suite=normals, make bench suite="noise store". Spark's run apart, where Spark is
# installed: make bench suite=spark.
ifeq ($(suite),spark)
bench: .venv-integrations/ready
	.venv-integrations/bin/python benchmarks/spark.py
else
bench: .venv/ready
	$(BIN)/pip install --quiet -r benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py $(suite)
endif

clean:
	rm -rf .venv .venv-docs .venv-integrations .portability build dist src/*.egg-info src/dpstream/kernel/*.so
