"""What keeps strangers out, and what strangers may cost: each promise broken once."""

from tests.faults.mutants import Mutant

SETTINGS = "tests/config/test_security.py"
LOGS = "tests/test_logging_setup.py"
HTTP = "tests/metrics/test_http.py"
ACCESS = "storage::access::tests"
TLS = "net::tests::tls"
GATE = "net::tests::sessions"
EXCHANGES = "tests/broker/authentication/test_exchanges.py"
TOLD = "tests/broker/authentication/test_conversations.py"
SESSIONS = "tests/broker/authentication/test_sessions.py"
AUTHENTICATION = "python/ottla/broker/authentication/authentication.py"
PRINCIPALS = "tests/broker/connections/test_principals.py"
RENEWED = "tests/broker/connections/test_tls_renewed.py"
TOKENS = "tests/broker/authentication/test_oauthbearer.py"
CLIENTS_OF_TOKENS = "tests/client/test_oauth.py"
BETWEEN = "tests/broker/authentication/test_tls_between_brokers.py"

DEV = "tests/cli/test_dev_security.py"

MUTANTS = (
    Mutant(
        "security.keys-for-everybody",
        "python/ottla/cli/_dev_certificates.py",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        pytest=(f"{DEV}::test_secrets_are_for_their_owner_alone",),
    ),
    Mutant(
        "security.each-start-makes-certificates",
        "python/ottla/cli/_dev_certificates.py",
        "if not broker_file.exists() or not _is_good(broker_file, hosts):",
        "if True:",
        pytest=(f"{DEV}::test_a_second_start_uses_the_same",),
    ),
    Mutant(
        "security.a-tree-for-topics-that-lost-theirs",
        "python/ottla/cli/_dev_security.py",
        "    return is_there and any(each.is_dir() for each in directory.iterdir())\n",
        "    return False\n",
        pytest=(f"{DEV}::test_a_directory_that_has_lost_its_tree_gets_no_new_one",),
    ),
    Mutant(
        "security.one-listener-is-not-looked-at",
        "python/ottla/config/security.py",
        "    if base not in REFUSED or name in ignored",
        "    if name not in REFUSED or name in ignored",
        pytest=(f"{SETTINGS}::test_what_asks_for_protection_is_refused",),
    ),
    Mutant(
        "security.stored-settings-are-taken",
        "python/ottla/config/dynamic.py",
        "if refused := refusal(name, text, ignored):",
        "if refused := None:",
        pytest=(f"{SETTINGS}::test_a_running_broker_is_not_given_them",),
    ),
    Mutant(
        "security.clients-decide-the-kind-of-a-line",
        "python/ottla/logging_setup.py",
        "record.msg if record.args and isinstance(record.msg, str) else record.levelno",
        "record.getMessage()",
        pytest=(f"{LOGS}::test_of_each_kind_only_so_many_lines_pass",),
    ),
    Mutant(
        "security.lines-end-inside",
        "python/ottla/logging_setup.py",
        "    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)\n",
        "    return text\n",
        pytest=(f"{LOGS}::test_text_is_one_line_whatever_clients_send",),
    ),
    Mutant(
        "security.secrets-take-words-out-of-lines",
        "python/ottla/logging_setup.py",
        'text += f" (and {unsaid:,} more like this)"\n        return _cut(text, LINE_MAX)',
        'text += f" (and {unsaid:,} more like this)"\n        return _cut(self.secrets(text), LINE_MAX)',
        pytest=(f"{LOGS}::test_whoever_sets_a_secret_takes_no_words_out_of_lines",),
    ),
    Mutant(
        "security.each-byte-gives-a-request-more-time",
        "python/ottla/metrics/http.py",
        "scope.deadline = min(scope.deadline, trio.current_time() + HEAD_S)",
        "scope.deadline = trio.current_time() + HEAD_S",
        pytest=(f"{HTTP}::test_half_a_request_ends",),
    ),
    Mutant(
        "security.a-scraper-holds-the-lock",
        "python/ottla/metrics/http.py",
        "        try:\n            with trio.fail_after(ANSWER_S):\n",
        "        try:\n            async with self._pages._writing:\n",
        pytest=(f"{HTTP}::test_a_scraper_that_does_not_read_holds_nobody_up",),
    ),
    Mutant(
        "security.connections-have-no-bound",
        "python/ottla/metrics/http.py",
        "        if self._count >= CONNECTIONS_MAX and not self._end_idle():\n",
        "        if False:\n",
        pytest=(f"{HTTP}::test_connections_are_bounded",),
    ),
    Mutant(
        "security.folders-are-for-everybody",
        "rust/storage/access.rs",
        "const OWN_FOLDER: u32 = 0o700;",
        "const OWN_FOLDER: u32 = 0o755;",
        cargo=(f"{ACCESS}::new_files_and_folders_follow_the_folder_around_them",),
    ),
    Mutant(
        "security.what-is-left-keeps-its-mode",
        "rust/storage/access.rs",
        "    open_to_others(path, &file)?;\n    Ok(file)\n",
        "    Ok(file)\n",
        cargo=(f"{ACCESS}::what_exists_keeps_its_mode_until_it_is_replaced",),
    ),
    Mutant(
        "security.a-user-without-a-place-in-the-tree-is-an-internal-error",
        "python/ottla/broker/scram.py",
        '    return user not in ("", ".", "..")\n',
        '    return user != ""\n',
        pytest=("tests/broker/admin/test_credentials.py::test_names_that_no_path_can_have",),
    ),
    # --- TLS ---
    Mutant(
        "tls.a-connection-that-is-cut-off-has-ended-well",
        "rust/net/tls/mod.rs",
        "(Some(End::Cut), 0) => Err(Errno::CONNRESET),",
        "(Some(End::Cut), 0) => Ok(0),",
        cargo=(f"{TLS}::an_end_without_good_bye_is_a_broken_connection",),
    ),
    Mutant(
        "tls.an-end-behind-the-last-request-is-not-seen",
        "rust/net/tls/mod.rs",
        "self.buffered() > 0 || self.end.is_some()",
        "self.buffered() > 0",
        cargo=(f"{TLS}::the_end_is_there_to_be_read_without_the_socket",),
    ),
    Mutant(
        "tls.each-slice-of-a-file-is-its-first",
        "rust/net/tls/mod.rs",
        "position + written as u64",
        "position",
        cargo=(f"{TLS}::hubs::slices_of_files_are_encrypted",),
    ),
    Mutant(
        "tls.a-certificate-that-is-required-is-only-wished-for",
        "rust/net/tls/config.rs",
        "ClientAuth::Required => verifier,",
        "ClientAuth::Required => verifier.allow_unauthenticated(),",
        cargo=(f"{TLS}::hubs::a_certificate_is_asked_for_where_it_is_required",),
    ),
    Mutant(
        "tls.a-session-that-breaks-is-not-told",
        "rust/net/hub/turns.rs",
        "State::Open | State::Closing => connection.transport.failure(),",
        "State::Open | State::Closing => None,",
        cargo=(f"{TLS}::hubs::a_session_that_breaks_is_told",),
    ),
    Mutant(
        "tls.each-byte-gives-a-handshake-more-time",
        "rust/net/hub/handshakes.rs",
        "            Ok(Progress::Reads) => EventFlags::IN,\n",
        "            Ok(Progress::Reads) => {\n"
        "                for one in &mut self.order {\n"
        "                    one.1 = Instant::now() + Duration::from_millis(HANDSHAKE_MS);\n"
        "                }\n"
        "                EventFlags::IN\n"
        "            }\n",
        cargo=(f"{TLS}::hubs::bytes_that_come_one_by_one_give_a_handshake_no_more_time",),
    ),
    # --- SASL ---
    Mutant(
        "sasl.a-session-that-has-ended-goes-on",
        "rust/net/session.rs",
        "} else if self.until_ms <= now_ms {",
        "} else if false && self.until_ms <= now_ms {",
        cargo=(f"{GATE}::who_was_known_says_it_anew_after_its_time",),
    ),
    Mutant(
        "sasl.a-handshake-of-version-1-is-followed-by-bare-tokens",
        AUTHENTICATION,
        "            if call.version == 0:\n",
        "            if call.version <= 1:\n",
        pytest=(f"{TOLD}::test_what_a_client_is_told[ottla-right]",),
    ),
    Mutant(
        "sasl.who-comes-anew-may-be-another",
        AUTHENTICATION,
        "        if before.user != user:\n",
        "        if False:\n",
        pytest=(f"{SESSIONS}::test_who_is_another_now_is_not_let_on",),
    ),
    Mutant(
        "sasl.the-name-does-not-reach-quotas",
        AUTHENTICATION,
        "        self._users[connection] = user\n",
        "",
        pytest=(f"{SESSIONS}::test_a_users_quota",),
    ),
    Mutant(
        "sasl.a-refusal-comes-at-once",
        AUTHENTICATION,
        "await trio.sleep(sasl.failure_delay_ms / 1000)",
        "await trio.sleep(0)",
        pytest=(
            "tests/broker/authentication/test_authentication.py::test_who_is_refused_is_told_when_the_delay_is_over",
        ),
    ),
    Mutant(
        "sasl.a-decoy-has-another-salt-each-time",
        "python/ottla/broker/authentication/scram.py",
        "made = hmac.digest(self._secret,",
        "made = hmac.digest(secrets.token_bytes(32),",
        pytest=(f"{TOLD}::test_users_are_not_told_apart",),
    ),
    Mutant(
        "sasl.an-old-nonce-is-as-good",
        "python/ottla/broker/authentication/scram.py",
        'not found["nonce"].endswith(first.nonce)',
        "False",
        pytest=(f"{EXCHANGES}::test_messages_of_scram_that_are_wrong",),
    ),
    Mutant(
        "sasl.a-user-that-is-deleted-comes-in",
        "python/ottla/broker/authentication/credentials.py",
        "for kind, old in self._users.pop(user, {}).items():",
        "for kind, old in self._users.get(user, {}).items():",
        pytest=(f"{SESSIONS}::test_users_come_and_go",),
    ),
    Mutant(
        "sasl.a-fetcher-outlives-its-session",
        "rust/replication/greeting.rs",
        "let is_over = |ends_at| ends_at <= Instant::now();",
        "let is_over = |_: Instant| false;",
        cargo=("replication::tests::connections::a_connection_whose_time_is_over_is_made_anew_without_a_word",),
    ),
    Mutant(
        "sasl.a-broker-that-refuses-counts-as-gone",
        "python/ottla/peers/presence.py",
        "        await trio.sleep(PATIENCE_S)\n        return False\n    except OSError:\n",
        "        return True\n    except OSError:\n",
        pytest=("tests/net/test_presence.py::test_who_is_not_let_in_proves_nothing",),
    ),
    Mutant(
        "tls.a-store-is-not-looked-at-before-it-is-named",
        "python/ottla/broker/admin.py",
        "has_files = is_own and await secured.check(config, then, names)",
        "has_files = is_own",
        pytest=(f"{RENEWED}::test_stores_that_are_refused",),
    ),
    Mutant(
        "tls.files-are-read-once",
        "python/ottla/broker/secured.py",
        "if any(self._seen.get(path) != stamp for path, stamp in found.items()):",
        "if False:",
        pytest=(f"{RENEWED}::test_a_file_with_another_certificate",),
    ),
    Mutant(
        "tls.a-file-that-is-bad-is-read-again-and-again",
        "python/ottla/broker/secured.py",
        "                self._seen |= found\n",
        "",
        pytest=(f"{RENEWED}::test_a_file_that_cannot_be_used_is_told_once",),
    ),
    Mutant(
        "tls.blanks-make-another-name",
        "python/ottla/broker/distinguished_names.py",
        'return " ".join(text.casefold().split())',
        "return text.casefold()",
        pytest=(
            f"{RENEWED}::test_case_and_blanks_of_a_name_do_not_matter",
            "tests/broker/connections/test_distinguished_names.py::test_names_are_the_same_but_for_case_and_blanks",
        ),
    ),
    Mutant(
        "tls.a-certificate-that-is-trusted-is-good-for-ever",
        "rust/net/tls/clients.rs",
        "        certificate.check_time(now)?;\n",
        "",
        cargo=(f"{TLS}::clients::a_certificate_that_is_trusted_ends_with_its_time",),
    ),
    Mutant(
        "tls.everybody-is-trusted",
        "rust/net/tls/clients.rs",
        "if !self.trusted.iter().any(|one| one == end_entity) {",
        "if self.trusted.is_empty() {",
        cargo=(f"{TLS}::clients::a_certificate_that_is_trusted_ends_with_its_time",),
    ),
    Mutant(
        "tls.a-certificate-alone-lets-people-in",
        "rust/net/tls/clients.rs",
        "self.by_authorities\n            .verify_tls13_signature(message, cert, dss)",
        "Ok(HandshakeSignatureValid::assertion())",
        cargo=(f"{TLS}::clients::a_certificate_alone_lets_nobody_in",),
    ),
    Mutant(
        "tls.passwords-of-keys-in-pkcs12-are-not-looked-at",
        "python/ottla/broker/tls.py",
        'if password not in (None, self.text("ssl.keystore.password")):',
        "if False:",
        pytest=("tests/broker/connections/test_tls_stores.py::test_pkcs12_that_cannot_be_opened",),
    ),
    Mutant(
        "tls.who-has-no-principal-is-served-under-leases",
        "rust/direct/mod.rs",
        "if incoming.origin.awaits_principal() {",
        "if false {",
        pytest=(f"{PRINCIPALS}::test_whom_no_rule_names_is_served_by_nobody",),
    ),
    Mutant(
        "tls.who-has-no-principal-is-served",
        "python/ottla/broker/requests.py",
        "            raise\n        if audit is not None:",
        "            return call.request.know_principal()\n        if audit is not None:",
        pytest=(f"{PRINCIPALS}::test_whom_no_rule_names_is_served_by_nobody",),
    ),
    Mutant(
        "tls.rules-apply-to-a-part-of-a-name",
        "python/ottla/broker/principals.py",
        "if compiled.fullmatch(text) is None:",
        "if compiled.match(text) is None:",
        pytest=(f"{PRINCIPALS}::test_rules_are_those_of_kafka",),
    ),
    Mutant(
        "tls.ends-of-lines-are-in-names",
        "python/ottla/broker/principals.py",
        'return _DOT if found["dot"] is not None else found[0]',
        "return found[0]",
        pytest=(f"{PRINCIPALS}::test_ends_of_lines_are_no_characters_of_names",),
    ),
    Mutant(
        "tls.the-oldest-of-all-makes-room",
        "rust/net/hub/handshakes.rs",
        "one.is_some_and(|(_, arrival)| Some(arrival.origin.peer.ip().to_canonical()) == most)",
        "one.is_some() && most.is_some()",
        cargo=(f"{TLS}::hubs::whoever_begins_too_many_takes_the_place_of_his_own",),
    ),
    Mutant(
        "tls.handshakes-that-fail-are-not-counted",
        "rust/net/hub/handshakes.rs",
        "if reason.is_some() {",
        "if false {",
        cargo=(f"{TLS}::hubs::handshakes_are_counted_by_how_they_end",),
    ),
    Mutant(
        "tls.servers-are-trusted-whoever-signed",
        "rust/net/tls/servers.rs",
        "        self.check_trust(end_entity, intermediates, now)?;\n",
        "",
        cargo=(f"{TLS}::servers::a_server_is_trusted_as_java_would",),
    ),
    Mutant(
        "tls.servers-may-have-any-name",
        "rust/net/tls/servers.rs",
        "if !self.checks_name {",
        "if true {",
        cargo=(f"{TLS}::servers::a_certificate_is_for_one_host",),
    ),
    Mutant(
        "tls.a-common-name-holds-beside-names-of-hosts",
        "rust/net/tls/certificate.rs",
        "if self.has_dns_names() {",
        "if false {",
        cargo=(f"{TLS}::servers::a_certificate_is_for_one_host",),
    ),
    Mutant(
        "tls.fetchers-speak-in-the-clear",
        "python/ottla/peers/greeting.py",
        "encryption(security) if security is not None and security.tls else None",
        "None",
        pytest=(f"{BETWEEN}::test_three_brokers[SSL]",),
    ),
    Mutant(
        "tls.neighbours-are-watched-in-the-clear",
        "python/ottla/peers/dialing.py",
        "                if security.tls:\n",
        "                if False:\n",
        pytest=(f"{BETWEEN}::test_the_connection_of_a_watcher_has_tls_too",),
    ),
    Mutant(
        "tls.nobody-tries-to-connect-to-himself",
        "python/ottla/broker/tls.py",
        '        client.check(listener.tls, host or "localhost")\n',
        "        pass\n",
        pytest=(f"{BETWEEN}::test_settings_with_which_a_broker_would_not_find_itself",),
    ),
    Mutant(
        "tls.connections-to-others-keep-the-first-certificate",
        "python/ottla/broker/secured.py",
        "            await self._renew_access(config())\n",
        "            pass\n",
        pytest=(f"{BETWEEN}::test_an_authority_is_replaced_while_brokers_run",),
    ),
    Mutant(
        "oauth.keys-may-be-shared-secrets",
        "python/ottla/broker/authentication/keys.py",
        "if key.algorithm_name in ALGORITHMS and",
        "if",
        pytest=(f"{TOKENS}::test_files_that_have_no_keys", f"{TOKENS}::test_tokens_with_a_signature"),
    ),
    Mutant(
        "oauth.keys-for-secrets-sign",
        "python/ottla/broker/authentication/keys.py",
        'and key.public_key_use in (None, "sig")]',
        "]",
        pytest=(f"{TOKENS}::test_tokens_with_a_signature",),
    ),
    Mutant(
        "oauth.tokens-may-be-for-others",
        "python/ottla/broker/authentication/tokens.py",
        '"verify_aud": bool(rules.audience)',
        '"verify_aud": False',
        pytest=(f"{TOKENS}::test_tokens_with_a_signature",),
    ),
    Mutant(
        "oauth.sessions-outlive-tokens",
        "python/ottla/broker/authentication/authentication.py",
        "if ends_at_s is not None and for_ms > 0:",
        "if False:",
        pytest=(f"{TOKENS}::test_a_session_ends_with_its_token",),
    ),
    Mutant(
        "oauth.tokens-without-a-signature-by-default",
        "python/ottla/broker/authentication/oauth_settings.py",
        "    if handler == UNSIGNED:\n",
        '    if handler in ("", UNSIGNED):\n',
        pytest=(f"{TOKENS}::test_settings_that_cannot_be_served",),
    ),
    Mutant(
        "oauth.a-redirect-gets-the-secret",
        "python/ottla/client/oauth.py",
        "handlers: list[Any] = [NoRedirect()]",
        "handlers: list[Any] = []",
        pytest=(f"{CLIENTS_OF_TOKENS}::test_what_an_authorization_server_may_say",),
    ),
    Mutant(
        "oauth.a-refused-token-is-used-again",
        "python/ottla/client/oauth.py",
        "            del _kept[source]\n",
        "            pass\n",
        pytest=(f"{CLIENTS_OF_TOKENS}::test_a_token_that_the_broker_refuses_is_not_used_again",),
    ),
    Mutant(
        "oauth.a-token-is-used-to-its-end",
        "python/ottla/client/oauth.py",
        "USED * _life_s(text, answer)",
        "1e9",
        pytest=(f"{CLIENTS_OF_TOKENS}::test_it_stays_in_with_new_tokens",),
    ),
)
