"""Kafka's error codes as one exception tree, and what went wrong on the wire itself.

`KafkaError` has one subclass per code of Apache Kafka 2.7, and the later ones that brokers of a mixed cluster may
send. Each says its `code`, its `name` as Kafka's documents write it, and whether a client that tries again (after
refreshing its metadata) may succeed (`retriable`). A class's docstring is its message when none is given.
Source: the protocol guide's table of error codes.

`ProtocolError` is about bytes instead of answers: `RemoteProtocolError` when a peer sent what is not a message,
`LocalProtocolError` when a message of ours cannot be expressed in the version asked for.
"""

from collections.abc import Sequence
from typing import ClassVar, Final


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 record`, `30,000 records`: how errors and commands write a number of things for people."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


class ProtocolError(Exception):
    """Bytes and message do not fit each other."""


class RemoteProtocolError(ProtocolError):
    """The peer's bytes are not a message; the text names the field and the position in bytes."""


class LocalProtocolError(ProtocolError):
    """This message cannot be written in this version; the text names the field."""


class KafkaError(Exception):
    """An answer other than success."""

    code: ClassVar[int]
    name: ClassVar[str]
    retriable: ClassVar[bool]
    #: Of records that were refused one by one (KIP-467): index in the batch and reason of each.
    record_errors: Sequence[tuple[int, str | None]] = ()

    def __init_subclass__(cls, *, code: int | None = None, retriable: bool = False, name: str = "") -> None:
        cls.name = name or _upper_snake(cls.__name__)
        if code is not None:  # else a special case of another error, that no broker sends
            cls.code = code
            cls.retriable = retriable
            BY_CODE[code] = cls

    def __init__(self, message: str = "") -> None:
        if len(message) > MESSAGE_MAX:
            message = message[: MESSAGE_MAX - len(CUT)] + CUT
        super().__init__(message or (self.__doc__ or self.name))


MESSAGE_MAX: Final = 4_000
"""Characters of a message. It may quote a name of any length, and a string of the protocol has 32,767 bytes."""
CUT: Final = "..."

BY_CODE: dict[int, type[KafkaError]] = {}
"""Every error by its code; 0 (no error) is absent."""


def error(code: int, message: str = "") -> KafkaError:
    """The exception for `code`; a code nobody here knows becomes UNKNOWN_SERVER_ERROR whose message tells the number.

    >>> error(6).name
    'NOT_LEADER_OR_FOLLOWER'
    """
    if known := BY_CODE.get(code):
        return known(message)
    return UnknownServerError(f"unknown error code {code}{': ' if message else ''}{message}")


def check(code: int, message: str | None = None) -> None:
    """Raise the exception for `code` unless it is 0."""
    if code:
        raise error(code, message or "")


def _upper_snake(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() and index else letter for index, letter in enumerate(name)).upper()


class UnknownServerError(KafkaError, code=-1):
    """The broker failed in a way it did not expect."""


class OffsetOutOfRange(KafkaError, code=1):
    """The partition does not hold this offset."""


class NoOffsetForPartition(OffsetOutOfRange):
    """The group has committed no offset, and nothing says where to start instead."""


class LogTruncated(OffsetOutOfRange):
    """The partition lost records that were read: its new leader has others at their offsets (KIP-320)."""


class CorruptMessage(KafkaError, code=2, retriable=True):
    """The records are damaged: checksum, size, or a missing key in a compacted topic."""


class UnknownTopicOrPartition(KafkaError, code=3, retriable=True):
    """This broker does not know this partition."""


class InvalidFetchSize(KafkaError, code=4):
    """The number of bytes to fetch makes no sense."""


class LeaderNotAvailable(KafkaError, code=5, retriable=True):
    """The partition has no leader at the moment."""


class NotLeaderOrFollower(KafkaError, code=6, retriable=True):
    """This broker does not lead the partition, or does not replicate it."""


class RequestTimedOut(KafkaError, code=7, retriable=True):
    """The request was not completed in its time."""


class BrokerNotAvailable(KafkaError, code=8):
    """The broker is not there."""


class ReplicaNotAvailable(KafkaError, code=9, retriable=True):
    """The partition's replica is not there."""


class MessageTooLarge(KafkaError, code=10):
    """The record batch is larger than the topic allows."""


class StaleControllerEpoch(KafkaError, code=11):
    """The request comes from a controller that has been replaced."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The text kept beside a committed offset is too long."""


class NetworkException(KafkaError, code=13, retriable=True):
    """The connection ended before the answer came."""


class CoordinatorLoadInProgress(KafkaError, code=14, retriable=True):
    """The coordinator is still reading its state."""


class CoordinatorNotAvailable(KafkaError, code=15, retriable=True):
    """There is no coordinator at the moment."""


class NotCoordinator(KafkaError, code=16, retriable=True):
    """This broker does not coordinate this group or transactional id."""


class InvalidTopic(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic's name is not allowed, or the operation is not allowed on this topic."""


class RecordListTooLarge(KafkaError, code=18):
    """The record batch is larger than a segment."""


class NotEnoughReplicas(KafkaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""


class NotEnoughReplicasAfterAppend(KafkaError, code=20, retriable=True):
    """The records were written, but fewer replicas are in sync than min.insync.replicas asks for."""


class InvalidRequiredAcks(KafkaError, code=21):
    """acks must be 0, 1 or -1 (all)."""


class IllegalGeneration(KafkaError, code=22):
    """The group has moved on to another generation."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The member shares no protocol with the other members of the group."""


class InvalidGroupId(KafkaError, code=24):
    """The group's name is not allowed."""


class UnknownMemberId(KafkaError, code=25):
    """The group does not know this member."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is outside of the broker's bounds."""


class RebalanceInProgress(KafkaError, code=27):
    """The group is rebalancing; the member must join again."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The offsets to commit do not fit into one record."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """Not allowed on this topic."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """Not allowed on this group."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """Not allowed on this cluster."""


class InvalidTimestamp(KafkaError, code=32):
    """A record's timestamp is too far from the broker's time."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """This request does not belong at this point of the authentication."""


class UnsupportedVersion(KafkaError, code=35):
    """This version of the API is not supported."""


class TopicAlreadyExists(KafkaError, code=36):
    """There is a topic of this name."""


class InvalidPartitions(KafkaError, code=37):
    """The number of partitions is not allowed."""


class InvalidReplicationFactor(KafkaError, code=38):
    """The replication factor is below 1 or above the number of brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """The replicas given for a partition are not possible."""


class InvalidConfig(KafkaError, code=40):
    """A setting's value is not allowed."""


class NotController(KafkaError, code=41, retriable=True):
    """This broker is not the controller."""


class InvalidRequest(KafkaError, code=42):
    """The request contradicts itself or the protocol."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The record format does not support this."""


class PolicyViolation(KafkaError, code=44):
    """The broker's policy forbids this."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """The producer's sequence number does not follow the last one."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """The producer's batch has been written before."""


class InvalidProducerEpoch(KafkaError, code=47):
    """A producer of the same id and a newer epoch is known."""


class InvalidTxnState(KafkaError, code=48):
    """The transaction is not in a state that allows this."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The transactional id belongs to another producer id."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction's timeout is above the broker's transaction.max.timeout.ms."""


class ConcurrentTransactions(KafkaError, code=51):
    """The transactional id is still completing another transaction."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """The transaction marker comes from a coordinator that has been replaced."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """Not allowed with this transactional id."""


class SecurityDisabled(KafkaError, code=54):
    """The broker has no authorizer."""


class OperationNotAttempted(KafkaError, code=55):
    """Nothing was done because another part of the request failed."""


class StorageError(KafkaError, code=56, retriable=True, name="KAFKA_STORAGE_ERROR"):
    """The disk failed; the log directory is offline."""


class LogNotFound(StorageError, FileNotFoundError):
    """There is no folder of this name."""


class MayHaveLost(StorageError):
    """The replica may have lost records, with the power of its machine or with its log, and somebody may have more."""


class LogDirNotFound(KafkaError, code=57):
    """The broker has no such log directory."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """Authentication failed."""


class UnknownProducerId(KafkaError, code=59):
    """The broker no longer knows this producer."""


class ReassignmentInProgress(KafkaError, code=60):
    """The partition is being moved."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """The broker has no delegation tokens."""


class DelegationTokenNotFound(KafkaError, code=62):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """The delegation token belongs to somebody else."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Delegation tokens cannot be asked for over this connection."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """Not allowed on this delegation token."""


class DelegationTokenExpired(KafkaError, code=66):
    """The delegation token has expired."""


class InvalidPrincipalType(KafkaError, code=67):
    """This kind of principal is not supported."""


class NonEmptyGroup(KafkaError, code=68):
    """The group still has members."""


class GroupIdNotFound(KafkaError, code=69):
    """There is no such group."""


class FetchSessionIdNotFound(KafkaError, code=70, retriable=True):
    """There is no such fetch session."""


class InvalidFetchSessionEpoch(KafkaError, code=71, retriable=True):
    """The fetch session is at another epoch."""


class ListenerNotFound(KafkaError, code=72, retriable=True):
    """The leader has no listener of the name that was asked."""


class TopicDeletionDisabled(KafkaError, code=73):
    """The broker does not delete topics (delete.topic.enable)."""


class FencedLeaderEpoch(KafkaError, code=74, retriable=True):
    """The request's leader epoch is older than the broker's."""


class UnknownLeaderEpoch(KafkaError, code=75, retriable=True):
    """The request's leader epoch is newer than the broker's."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The client cannot read, or the broker cannot accept, this compression."""


class StaleBrokerEpoch(KafkaError, code=77):
    """The request belongs to an earlier life of the broker."""


class OffsetNotAvailable(KafkaError, code=78, retriable=True):
    """The new leader's high watermark has not caught up yet."""


class MemberIdRequired(KafkaError, code=79):
    """The member must join again with the id it has just been given."""


class PreferredLeaderNotAvailable(KafkaError, code=80, retriable=True):
    """The preferred leader is not there."""


class GroupMaxSizeReached(KafkaError, code=81):
    """The group has as many members as it may have."""


class FencedInstanceId(KafkaError, code=82):
    """Another member has taken this group.instance.id."""


class EligibleLeadersNotAvailable(KafkaError, code=83, retriable=True):
    """No replica that may lead is there."""


class ElectionNotNeeded(KafkaError, code=84, retriable=True):
    """The partition has the wanted leader already."""


class NoReassignmentInProgress(KafkaError, code=85):
    """The partition is not being moved."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """The group is reading this topic."""


class InvalidRecord(KafkaError, code=87):
    """The broker refuses a record of the batch."""


class UnstableOffsetCommit(KafkaError, code=88, retriable=True):
    """Offsets of an open transaction must be settled first."""


class ThrottlingQuotaExceeded(KafkaError, code=89, retriable=True):
    """The quota is used up."""


class ProducerFenced(KafkaError, code=90):
    """A newer producer uses the same transactional id."""


class ResourceNotFound(KafkaError, code=91):
    """There is no such thing."""


class DuplicateResource(KafkaError, code=92):
    """The request names the same thing twice."""


class UnacceptableCredential(KafkaError, code=93):
    """The credential does not meet the requirements."""


class InconsistentVoterSet(KafkaError, code=94):
    """Sender or receiver is not among the voters."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The feature's version is not allowed."""


class FeatureUpdateFailed(KafkaError, code=96):
    """The features could not be changed."""


# Later than 2.7: what a newer broker of the same cluster, or a client of ours against a newer broker, may meet.


class PrincipalDeserializationFailure(KafkaError, code=97):
    """The forwarded principal cannot be read."""


class UnknownTopicId(KafkaError, code=100, retriable=True):
    """This broker does not know this topic id."""


class InconsistentTopicId(KafkaError, code=103, retriable=True):
    """The log belongs to another topic id."""


class InconsistentClusterId(KafkaError, code=104):
    """The request belongs to another cluster."""


class TransactionalIdNotFound(KafkaError, code=105):
    """There is no such transactional id."""


class FetchSessionTopicIdError(KafkaError, code=106, retriable=True):
    """The fetch session mixes topics with and without ids."""


class IneligibleReplica(KafkaError, code=107):
    """A replica of the new in-sync set may not be in it."""


class NewLeaderElected(KafkaError, code=108):
    """The change was made, and the partition has another leader now."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """The offset is in tiered storage."""


class FencedMemberEpoch(KafkaError, code=110):
    """The member must give up its partitions and join again."""


class UnreleasedInstanceId(KafkaError, code=111):
    """Another member still uses this group.instance.id."""


class UnsupportedAssignor(KafkaError, code=112):
    """The group does not support this assignor."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member has not heard of its newest epoch yet."""


class MismatchedEndpointType(KafkaError, code=114):
    """The request asks for endpoints of another type than the one that it was sent to."""


class UnknownSubscriptionId(KafkaError, code=117):
    """The telemetry subscription is out of date."""


class TransactionAbortable(KafkaError, code=120):
    """The transaction failed; aborting it is enough to go on."""
