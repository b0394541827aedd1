"""dpstream inside other libraries: `torch` (with Opacus) and `jax` (with optax). The core imports none of it."""
