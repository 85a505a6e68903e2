"""One module for each page, or for a few that belong together; the application finds them by their `routes`."""
