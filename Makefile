# The two commands are `make lab` and `make test`. Everything is done by dev.py, which Windows runs without make:
#   python dev.py lab
# Options are passed on as ARGS: make lab ARGS="--fresh 01"
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python,$(shell command -v $(name) 2>/dev/null)))
ARGS ?=

.PHONY: lab site class test test-gpu record lint usb clean help
.DEFAULT_GOAL := help

lab site class test test-gpu record lint usb clean help:
	@test -n "$(PYTHON)" || { echo "This course needs Python 3.11 or newer, and there is none. Install python3 and python3-venv."; exit 1; }
	@"$(PYTHON)" dev.py $@ $(ARGS)
