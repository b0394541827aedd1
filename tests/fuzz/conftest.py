"""atheris is an extra; its harness is run by .ci/run, not collected."""

collect_ignore = ["with_atheris.py"]
