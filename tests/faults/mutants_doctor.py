"""The doctor about a broker's security."""

from tests.faults.mutants import Mutant

FILE = "tests/doctor/test_broker_file.py"

MUTANTS = (
    Mutant(
        "doctor.a-certificate-with-an-end-is-fine",
        "python/ottla/doctor/certificates.py",
        "if found.end - now < timedelta(days=SOON_DAYS) and soon is None:",
        "if False:",
        pytest=(f"{FILE}::test_a_certificate_that_expires_soon_and_one_that_has",),
    ),
    Mutant(
        "doctor.a-star-is-for-all-below",
        "python/ottla/doctor/certificates.py",
        'rest = wanted.partition(".")[2]',
        'rest = ".".join(wanted.split(".")[-2:])',
        pytest=(f"{FILE}::test_names_that_clients_are_told",),
    ),
    Mutant(
        "doctor.passwords-are-shown",
        "python/ottla/doctor/broker_file.py",
        'weak.append(f"{user} on {endpoint.name} ({why})")',
        'weak.append(f"{user} on {endpoint.name} ({password})")',
        pytest=(f"{FILE}::test_passwords_that_are_soon_guessed",),
    ),
    Mutant(
        "doctor.an-open-listener-beside-others-is-fine",
        "python/ottla/doctor/broker_file.py",
        "    open_ = [each for each in exposed if not _knows_clients(config, each)]\n",
        "    open_ = [each for each in exposed if each.protocol == 'SSL']\n",
        pytest=(f"{FILE}::test_an_open_listener_beside_secured_ones",),
    ),
)
