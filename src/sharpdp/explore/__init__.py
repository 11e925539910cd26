"""A local page to explore answers: `sharpdp explore`, or `start().run()`.

The page is served on this machine only, makes no outside request, and needs nothing but a browser. What
it shows is computed by the same calls as everywhere else, in processes of their own, so that work which
nobody waits for any more can be stopped.
"""

from sharpdp.explore.server import ExploreServer, start

__all__ = ["ExploreServer", "start"]
