"""From an event log to the inputs of a counter: files in, one whole number (or histogram) a step out."""
