"""A disk that forgets what was not synced when its machine loses power: for brokers that run, of whatever make.

    with ForgetfulDisk(folder) as disk:     # a file system at `folder`
        broker.start()
        ...
        broker.kill()
        disk.lose_power()                   # only what was synced is there
        broker.start()

It speaks the kernel's FUSE protocol itself, so that it needs no library; mounting takes root.

| file | holds |
|---|---|
| volume.py | files and folders, each as it is now and as it was when it was synced |
| protocol.py | the kernel's requests and their answers as bytes |
| server.py | the process that serves a mounted volume |
| disk.py | what tests use |
"""

from tests.cluster.forgetful.disk import ForgetfulDisk, Lost

__all__ = ["ForgetfulDisk", "Lost"]
