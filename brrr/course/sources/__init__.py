"""Where measurements come from and where they go: live sources, recordings, the recorder."""
