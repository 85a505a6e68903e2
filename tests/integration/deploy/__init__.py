"""What `deploy/` gives to those who run kavka under systemd, on Kubernetes and in GitHub Actions."""
