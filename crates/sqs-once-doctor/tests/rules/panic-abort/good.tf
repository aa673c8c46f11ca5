# The manifest beside it has no such profile.
