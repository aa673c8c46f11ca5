# finding: panic-abort profile.release
# finding: panic-abort profile.tiny
# They are in the manifest beside it.
