"""In the place of what starts containers: the server is there."""

import pytest


class Services:
    def start(self, name):
        if name != "redis-basic":
            pytest.skip(name + " is not there")

    def wait_for_service(self, *_, **__):
        pass


@pytest.fixture(scope="session")
def docker_services():
    return Services()
