import ottla


def test_the_installed_package_is_a_release_build() -> None:
    assert ottla.__version__ == "0.1.0"
    assert not ottla._core.DEBUG_BUILD
