"""The Rust side of Ottla. Sections follow the rooms of rust/; each is documented where Python wraps it."""

__version__: str
DEBUG_BUILD: bool

# --- records ---

# --- log ---

# --- wire ---

# --- net ---
