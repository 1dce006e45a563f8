# Everything that can be run here; each target sets up what it needs, once.

VENV ?= .venv
BIN := $(abspath $(VENV))/bin
INSTALL = $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet --editable
QUICKSTART := notebooks/00_quickstart.ipynb
# The demo runs on the offline model even where a key is set.
KEYS := API_KEY AUTH_TOKEN BASE_URL PROFILE IDENTITY_TOKEN IDENTITY_TOKEN_FILE
NO_KEY := env $(addprefix -u ANTHROPIC_,$(KEYS))
NBCONVERT = $(BIN)/jupyter-nbconvert --log-level=WARN --output-dir=build

.PHONY: help demo lab test soak docs lock-binder bench api clean chromium

help:
	@echo "make demo   run the quickstart notebook, without a key, into build/"
	@echo "make lab    open the quickstart notebook in JupyterLab"
	@echo "make test   run every check"
	@echo "make soak   kill writing processes a thousand times and resume; KILLS=n for other counts"
	@echo "make bench  run the benchmarks; ARGS='...' are passed on"
	@echo "make docs   write the API reference into build/api"
	@echo "make lock-binder  pin Binder's packages anew"
	@echo "make api    write tests/public_api.txt anew"
	@echo "make clean  remove what was made"

demo: $(VENV)/.lab
	$(NO_KEY) $(NBCONVERT) --to=notebook --execute --ExecutePreprocessor.store_widget_state=False --output=quickstart.ipynb $(QUICKSTART)
	$(NBCONVERT) --to=html --output=quickstart.html build/quickstart.ipynb
	@echo
	@echo "The notebook ran. Read it in a browser: $(CURDIR)/build/quickstart.html"
	@echo "Run it yourself: make lab"

lab: $(VENV)/.lab
	$(BIN)/jupyter-lab $(if $(filter 0,$(shell id -u)),--allow-root) $(QUICKSTART)

test: $(VENV)/.dev chromium
	PATH="$(BIN):$$PATH" scripts/check

soak: $(VENV)/.dev
	$(BIN)/python -m tests.plugins.crash --kills $(or $(KILLS),1000)

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench $(ARGS)

docs: $(VENV)/.dev
	rm -rf build/api
	$(BIN)/python -m scripts.api_reference build/api
	@echo "Read it in a browser: $(CURDIR)/build/api/index.html"

lock-binder: $(VENV)/.dev
	$(BIN)/python -m pip --disable-pip-version-check install --quiet uv
	PATH="$(BIN):$$PATH" scripts/lock-binder

api: $(VENV)/.dev
	$(BIN)/python -m scripts.public_api >build/public_api.txt
	mv build/public_api.txt tests/public_api.txt

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find dsh_nb tests scripts -name __pycache__ -prune -exec rm -rf {} +

chromium:
	@scripts/install-chromium

$(BIN)/python:
	@scripts/make-venv $(VENV)

$(VENV)/.lab: pyproject.toml | $(BIN)/python build
	@echo "installing the package and JupyterLab into $(VENV), once"
	@$(INSTALL) '.[lab]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python build
	@echo "installing the package and what the checks need into $(VENV), once"
	@$(INSTALL) '.[lab,aiohttp,dev]'
	@touch $@

build:
	@mkdir -p $@
