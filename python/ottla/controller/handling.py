"""Which part of the term acts on which event."""

from __future__ import annotations

from ottla.controller import events as e
from ottla.controller import orders
from ottla.controller.balance import give_back
from ottla.controller.taking_over import look_again, look_at_rest
from ottla.controller.term import Term


async def handle(term: Term, event: e.Event) -> None:
    """Handles one event to its end. Raises ControllerMoved when the term is over."""
    match event:
        case e.ControllerChange() | e.SessionChange():
            await term.check_place()
        case e.LookAgain():
            await look_again(term)
        case e.LookAtRest():
            await look_at_rest(term)
        case e.BrokerChange():
            await term.brokers.look()
        case e.BrokerModifications(broker):
            await term.brokers.look_at(broker)
        case e.BrokerGone(broker, epoch):
            await term.brokers.gone(broker, epoch)
        case e.AwayOver():
            await term.away.look()
        case e.TopicChange():
            await term.topics.look()
        case e.PartitionModifications(topic):
            await term.topics.look_at(topic)
        case e.TopicsMissing():
            await term.topics.look_for_missing()
        case e.TopicDeletion():
            await term.deletions.look()
        case e.UncleanLeaderElectionEnable():
            await term.states.elect_unclean()
        case e.TopicUncleanLeaderElectionEnable(topic):
            await term.states.elect_unclean(topic)
        case e.IsrChangeNotification():
            await term.notifications.isr_changes()
        case e.LogDirEventNotification():
            await term.notifications.log_dir_events()
        case e.LeaderAndIsrAnswered():
            await term.answers.to_leader_and_isr(event)
        case e.StopReplicaAnswered():
            await term.answers.to_stop_replica(event)
        case e.UpdateMetadataAnswered():
            term.answers.to_update_metadata(event)
        case e.ReplicasRestored():
            await term.answers.use_restored()
        case e.IsrsGrown():
            await term.moves.advance_grown()
        case e.EndingsOverdue():
            await term.moves.give_up_silent()
        case e.Reassignment():
            await term.moves.ordered_in_tree()
        case e.PreferredElection():
            await orders.elections_in_tree(term)
        case e.AutoBalance(tolerated_percentage):
            await give_back(term, tolerated_percentage)
        case e.Order():
            await event.carry_out()
        case _:
            raise TypeError(f"nobody handles {event}")
