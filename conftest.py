"""Modules that need a package which is not installed are not collected for their examples."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("grain") else ["src/sharpdp/integrations/grain.py"]
