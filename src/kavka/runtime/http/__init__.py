"""HTTP, both sides.

http_server        the console or a schema registry on its port; http_deadlines: how long a peer may be silent;
                   entrance: connections of https up to the end of their handshakes
metrics_server     GET /metrics
documents          what stands at an https: or file: address, read whole
http_services      how any service over HTTP is asked; exchanges: one question and its answer; webhooks: how one is told
trace_export       traces of requests to an OpenTelemetry collector
"""
