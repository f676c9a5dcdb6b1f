"""An authorization server, which gives tokens that nobody has signed."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
LOGIN = f"{PACKAGE}.OAuthBearerLoginModule"
#: The class that takes tokens that nobody has signed.
UNSIGNED = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
SECRET = "it's a secret"


def unsigned(lasts_s: float = 600, **others: object) -> str:
    def part(fields: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'iat': now, 'exp': now + lasts_s, **others})}."


class Authorization:
    """`answers`: What it says next, a status and a body; then tokens. `lasts_s`: Their life. `user`: Whose they are."""

    def __init__(self, user: str = "alice") -> None:
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.lasts_s = 600.0
        outer = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.asked.append((self.headers["Authorization"], parse_qs(body)))
                token = json.dumps({"access_token": unsigned(outer.lasts_s, sub=user), "expires_in": 5}).encode()
                status, said = outer.answers.pop(0) if outer.answers else (200, token)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Answers)
        self.port = self._server.server_port
        self.thread = threading.Thread(target=self._server.serve_forever)

    def settings(self, **others: str) -> dict[str, str]:
        options = f'clientId="orders" clientSecret="{SECRET}" scope="kafka read"'
        return {
            **BASE,
            "sasl.login.callback.handler.class": f"{PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{self.port}/token",
            "sasl.jaas.config": f"{LOGIN} required {options};",
            **others,
        }

    def close(self) -> None:
        self._server.shutdown()
        self.thread.join()
        self._server.server_close()
