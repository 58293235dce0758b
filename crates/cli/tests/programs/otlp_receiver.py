"""A receiver of OTLP/HTTP that decodes with OpenTelemetry's own messages and prints each request as a line of JSON."""
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportMetricsServiceRequest.FromString(body)
        # Nothing of ours may be unknown to the schema: what it knows must be all there is.
        whole = request.SerializeToString(deterministic=True)
        request.DiscardUnknownFields()
        known = request.SerializeToString(deterministic=True) == whole
        line = {"path": self.path, "known": known, "key": self.headers.get("api-key"),
                "type": self.headers["Content-Type"], "message": MessageToDict(request)}
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        print(json.dumps(line), flush=True)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
print("port", server.server_address[1], flush=True)
server.serve_forever()
