---------------------------- MODULE Replication ----------------------------
(***************************************************************************)
(* Replication of one partition, as docs/replication-spec.md explains it.  *)
(* The rules R1 to R10 are those of the contract that page states; each    *)
(* action names the rules that it stands for.                              *)
(*                                                                         *)
(* ZooKeeper is a history of states of the map's node, to which every      *)
(* change is a compare-and-set. A broker knows some state of that history, *)
(* never goes back, and may be late. What a process has written survives   *)
(* its crash, for the page cache does; a loss of power leaves what was     *)
(* flushed, and any beginning of the rest.                                 *)
(*                                                                         *)
(* Flaws are rules that are left out on purpose: every one of them must    *)
(* break an invariant, or the model would not see what the rule is for.    *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Brokers,            \* the replicas
    None,               \* no broker, no set of brokers, no message
    Flaws,              \* names of rules that are left out; {} is the contract
    MinInSync,          \* min.insync.replicas
    MaxRecords,         \* so many records are appended by producers
    MaxChanges,         \* so many states the map's node has
    MaxProposals,       \* so often leaders propose another ISR
    MaxCrashes,         \* so many processes die
    MaxPowerLosses,     \* so often brokers lose their power, any number at once
    MaxDiskLosses,      \* so many disks are lost
    MaxTrims,           \* so often records are deleted from the log's start
    LateFetches,        \* whether a fetch may be on its way while other things happen
    Unclean             \* unclean.leader.election.enable

VARIABLES
    history,            \* the states of the node, the last one is ZooKeeper's
    proposals,          \* sets of brokers on their way to the node, for its present version
    known,              \* broker -> the state of the node that it knows, by its place in history
    up,                 \* brokers whose process runs
    reopened,           \* brokers that opened their log as the leader of an epoch of before
    emptied,            \* brokers whose disk was lost, and that have not said so yet
    log,                \* broker -> records, from offset 0 on
    start,              \* broker -> the first offset that it still has
    flushed,            \* broker -> what lies below is on its disk
    exposed,            \* broker -> what lies below is shown to consumers: the high watermark
    progress,           \* leader -> broker -> what the other one has flushed, as far as is known
    begun,              \* leader -> where its epoch begins
    proposed,           \* leader -> the ISR that it has proposed, until it reads what became of it
    waiting,            \* leader -> records of acks=all that are not answered yet
    channel,            \* follower -> the one fetch, or the answer to one, that is under way
    seen,               \* ids of records that any consumer saw, by offset
    acked,              \* records of acks=all that were answered
    stated,             \* whether a loss was stated: the only in-sync replica lost its disk
    appended, asked, crashes, powerLosses, diskLosses, trims   \* what the bounds count

leadership == <<progress, begun, proposed, waiting>>
disks      == <<log, start, flushed>>
zookeeper  == <<history, proposals>>
promises   == <<seen, acked>>
counters   == <<stated, appended, asked, crashes, powerLosses, diskLosses, trims>>
vars == <<history, proposals, known, up, reopened, emptied, log, start, flushed, exposed,
          leadership, channel, promises, counters>>

-----------------------------------------------------------------------------
(* Words *)

Least(a, b)    == IF a < b THEN a ELSE b
Most(a, b)     == IF a > b THEN a ELSE b
Minimum(S)     == CHOOSE x \in S : \A y \in S : x <= y
Ids(records)   == [i \in DOMAIN records |-> records[i].id]
First(s, n)    == SubSeq(s, 1, n)
IsPrefix(s, t) == Len(s) <= Len(t) /\ First(t, Len(s)) = s
Agree(s, t)    == IsPrefix(s, t) \/ IsPrefix(t, s)
Flawed(rule)   == rule \in Flaws

Map       == history[Len(history)]
Info(b)   == history[known[b]]              \* what b knows of the node
Nobody    == [f \in Brokers |-> 0]
Answered  == {None}

(* A broker leads by what it knows, be that true or not; and follows by it. *)
Leads(b)      == b \in up /\ Info(b).leader = b /\ b \notin reopened
Follows(f, b) == f \in up /\ Info(f).leader = b /\ f # b

EpochAt(records, length) == IF length = 0 THEN 0 ELSE records[length].epoch

(* The last epoch up to `epoch` that a log has, and where it ends there. *)
EndOfEpoch(records, epoch) ==
    LET upTo == {i \in DOMAIN records : records[i].epoch <= epoch}
        end  == IF upTo = {} THEN 0 ELSE CHOOSE i \in upTo : \A j \in upTo : j <= i
    IN  [epoch |-> EpochAt(records, end), end |-> end]

(* R3: all of the old ISR and of the one that is on its way. *)
MaximalInSync(inSync, proposal) ==
    IF proposal = None \/ Flawed("minimal-isr")
    THEN IF proposal # None THEN inSync \cap proposal ELSE inSync
    ELSE inSync \cup proposal

(* R3: the least flushed offset of the in-sync replicas, the leader's included. *)
HighWatermark(b, inSync, proposal, ownFlushed, ownEnd, told) ==
    Minimum({IF f # b THEN told[f]
             ELSE IF Flawed("hw-without-flush") THEN ownEnd ELSE ownFlushed
             : f \in MaximalInSync(inSync, proposal) \cup {b}})

(* A leader shows consumers what lies below `offset`, and answers whose records are (R4). *)
Expose(b, offset, records, inSync, stillWaiting) ==
    LET to       == Most(exposed[b], offset)
        done     == {each \in stillWaiting : each.offset < to}
        promised == IF Cardinality(inSync) >= MinInSync THEN done ELSE {}
    IN  /\ exposed' = [exposed EXCEPT ![b] = to]
        /\ seen' = IF to > Len(seen) THEN seen \o SubSeq(Ids(records), Len(seen) + 1, to) ELSE seen
        /\ acked' = acked \cup promised
        /\ waiting' = [waiting EXCEPT ![b] = stillWaiting \ done]

(* A change of the node: what was proposed for the version before will fail. *)
Change(state) ==
    /\ Len(history) < MaxChanges
    /\ history' = Append(history, state)
    /\ proposals' = IF Flawed("no-compare-and-set") THEN proposals ELSE {}

-----------------------------------------------------------------------------
(* The leader *)

(* R4, R7. Also by one that was deposed and does not know it. A producer with acks=all waits, if
   the leader believes enough replicas in sync; else the record is one of acks=1, and nothing is
   promised. *)
Produce(b) ==
    /\ Leads(b)
    /\ appended < MaxRecords
    /\ LET record == [epoch |-> Info(b).epoch, id |-> appended + 1]
       IN  /\ log' = [log EXCEPT ![b] = Append(@, record)]
           /\ appended' = appended + 1
           /\ waiting' = IF Cardinality(Info(b).isr) < MinInSync THEN waiting ELSE
                [waiting EXCEPT ![b] = @ \cup {[offset |-> Len(log[b]), id |-> record.id]}]
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, start, flushed, exposed, progress,
                   begun, proposed, channel, promises, stated, asked, crashes, powerLosses,
                   diskLosses, trims>>

(* R3. Of a leader, this moves the high watermark. *)
Flush(b) ==
    /\ b \in up
    /\ flushed[b] < Len(log[b])
    /\ flushed' = [flushed EXCEPT ![b] = Len(log[b])]
    /\ IF Leads(b)
       THEN LET info == Info(b)
            IN  Expose(b, HighWatermark(b, info.isr, proposed[b], Len(log[b]), Len(log[b]),
                                        progress[b]), log[b], info.isr, waiting[b])
       ELSE UNCHANGED <<exposed, promises, waiting>>
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, log, start, progress, begun, proposed,
                   channel, counters>>

(* R5. Who leaves has not caught up for a while; who joins has reached the high watermark and the
   beginning of the leader's epoch. *)
ProposeInSync(b) ==
    /\ Leads(b)
    /\ proposed[b] = None
    /\ known[b] < MaxChanges
    /\ asked < MaxProposals
    /\ asked' = asked + 1
    /\ \E f \in Brokers \ {b} :
        LET isr == Info(b).isr
            new == IF f \in isr THEN isr \ {f} ELSE isr \cup {f}
        IN  /\ \/ f \in isr
               \/ /\ progress[b][f] >= exposed[b]
                  /\ progress[b][f] >= begun[b] \/ Flawed("join-before-epoch")
            /\ proposed' = [proposed EXCEPT ![b] = new]
            /\ proposals' = IF known[b] = Len(history) \/ Flawed("no-compare-and-set")
                            THEN proposals \cup {new} ELSE proposals
            /\ IF Flawed("minimal-isr")
               THEN Expose(b, HighWatermark(b, isr, new, flushed[b], Len(log[b]), progress[b]),
                           log[b], isr, waiting[b])
               ELSE UNCHANGED <<exposed, promises, waiting>>
    /\ UNCHANGED <<history, known, up, reopened, emptied, disks, progress, begun, channel, stated,
                   appended, crashes, powerLosses, diskLosses, trims>>

(* R5. A proposal reaches ZooKeeper, whatever became of its sender. *)
ProposalArrives ==
    /\ \E isr \in proposals : Change([Map EXCEPT !.isr = isr])
    /\ UNCHANGED <<known, up, reopened, emptied, disks, exposed, leadership, channel, promises,
                   counters>>

(* R7. Who opened a log that it led before raises its epoch before it leads. *)
RaiseEpoch(b) ==
    /\ b \in up
    /\ b \in reopened
    /\ Info(b).leader = b
    /\ known[b] = Len(history)
    /\ Change([Map EXCEPT !.epoch = @ + 1])
    /\ UNCHANGED <<known, up, reopened, emptied, disks, exposed, leadership, channel, promises,
                   counters>>

(* R1. Records that consumers can see are deleted from the start, by retention or on request. *)
Trim(b) ==
    /\ Leads(b)
    /\ trims < MaxTrims
    /\ start[b] < exposed[b]
    /\ start' = [start EXCEPT ![b] = exposed[b]]
    /\ trims' = trims + 1
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, log, flushed, exposed, leadership,
                   channel, promises, stated, appended, asked, crashes, powerLosses, diskLosses>>

-----------------------------------------------------------------------------
(* The follower *)

(* R2, R8. What it has flushed is where it goes on. *)
MayFetch(f) ==
    /\ f \in up
    /\ Info(f).leader \notin {None, f}
    /\ channel[f] = None
    /\ flushed[f] = Len(log[f]) \/ Flawed("fetch-offset-written")

Fetch(f) ==
    [kind |-> "fetch", leader |-> Info(f).leader, epoch |-> Info(f).epoch,
     offset |-> Len(log[f]),
     last |-> IF Len(log[f]) > start[f] THEN EpochAt(log[f], Len(log[f])) ELSE 0]

SendFetch(f) ==
    /\ LateFetches
    /\ MayFetch(f)
    /\ channel' = [channel EXCEPT ![f] = Fetch(f)]
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, disks, exposed, leadership, promises,
                   counters>>

(* R8, R3. The leader answers, or says where histories part; else it now knows how far f is. *)
ServeFetch(f) ==
    /\ IF LateFetches THEN channel[f] # None /\ channel[f].kind = "fetch" ELSE MayFetch(f)
    /\ LET fetch == IF LateFetches THEN channel[f] ELSE Fetch(f)
           b     == fetch.leader
           info  == Info(b)
           end   == EndOfEpoch(log[b], fetch.last)
           parts == /\ fetch.last # 0
                    /\ ~Flawed("no-truncation")
                    /\ end.epoch < fetch.last \/ end.end < fetch.offset
           behind == fetch.offset < start[b]
           told  == [progress[b] EXCEPT ![f] = Most(@, fetch.offset)]
           counts == (~parts /\ ~behind) \/ Flawed("diverging-counts")
           answer == [kind |-> IF behind THEN "anew" ELSE IF parts THEN "diverging" ELSE "records",
                      leader |-> b, epoch |-> info.epoch,
                      offset |-> IF behind THEN start[b] ELSE fetch.offset,
                      end |-> IF parts /\ ~behind THEN end ELSE None,
                      records |-> IF parts \/ behind THEN <<>>
                                  ELSE SubSeq(log[b], fetch.offset + 1, Len(log[b])),
                      start |-> start[b]]
       IN  IF ~Leads(b) \/ (fetch.epoch # info.epoch /\ ~Flawed("no-fencing"))
           THEN \* FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, or dead
                /\ channel' = [channel EXCEPT ![f] = None]
                /\ UNCHANGED <<progress, exposed, promises, waiting>>
           ELSE /\ progress' = IF counts THEN [progress EXCEPT ![b] = told] ELSE progress
                /\ IF counts
                   THEN Expose(b, HighWatermark(b, info.isr, proposed[b], flushed[b],
                                                Len(log[b]), told),
                               log[b], info.isr, waiting[b])
                   ELSE UNCHANGED <<exposed, promises, waiting>>
                /\ channel' = [channel EXCEPT ![f] = IF f \in up
                    THEN answer @@ [exposed |-> exposed'[b]] ELSE None]
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, disks, begun, proposed, counters>>

(* R8, R3, R1. A follower exposes what the leader does, as far as it has flushed it, and goes on
   exposing what it did, unless it is truncated: after a loss that was stated. *)
ReceiveAnswer(f) ==
    /\ f \in up
    /\ channel[f] # None
    /\ channel[f].kind # "fetch"
    /\ channel' = [channel EXCEPT ![f] = None]
    /\ LET answer == channel[f]
           records == log[f]
           own == EndOfEpoch(records, answer.end.epoch)
           cut == CASE answer.kind = "diverging" -> Least(answer.end.end, own.end)
                    [] OTHER -> Len(records)
           kept == First(records, cut)
           show == Least(cut, Most(exposed[f], Least(answer.exposed, flushed[f])))
       IN  IF answer.kind = "anew"
           THEN /\ log' = [log EXCEPT ![f] = [i \in 1..answer.offset |-> [epoch |-> 0, id |-> 0]]]
                /\ flushed' = [flushed EXCEPT ![f] = answer.offset]
                /\ start' = [start EXCEPT ![f] = answer.offset]
                /\ exposed' = [exposed EXCEPT ![f] = answer.offset]
                /\ UNCHANGED seen
           ELSE /\ log' = [log EXCEPT ![f] = kept \o answer.records]
                /\ flushed' = [flushed EXCEPT ![f] = Least(@, cut)]
                /\ exposed' = [exposed EXCEPT ![f] = show]
                /\ start' = [start EXCEPT ![f] = Most(@, Least(answer.start, show))]
                /\ seen' = IF show > Len(seen)
                           THEN seen \o SubSeq(Ids(log'[f]), Len(seen) + 1, show) ELSE seen
    /\ acked' = acked \cup {each \in waiting[f] : each.offset < exposed'[f]}
    /\ UNCHANGED <<zookeeper, known, up, reopened, emptied, leadership, counters>>

-----------------------------------------------------------------------------
(* The map *)

(* R5, R7, R9. A broker reads a later state of the node: the newest, or one between. *)
Learn(b) ==
    /\ b \in up
    /\ \E place \in known[b] + 1 .. Len(history) :
        LET old == Info(b)
            new == history[place]
            turned == new.leader # old.leader \/ new.epoch # old.epoch
            leads == new.leader = b
            told == IF (turned /\ ~Flawed("progress-kept")) \/ ~leads THEN Nobody ELSE progress[b]
        IN  /\ known' = [known EXCEPT ![b] = place]
            /\ proposed' = [proposed EXCEPT ![b] = None]
            /\ reopened' = IF leads /\ ~turned THEN reopened ELSE reopened \ {b}
            /\ progress' = [progress EXCEPT ![b] = told]
            /\ begun' = [begun EXCEPT ![b] =
                 IF ~leads THEN 0 ELSE IF turned THEN Len(log[b]) ELSE @]
            /\ channel' = IF turned /\ ~Flawed("no-fencing")
                          THEN [channel EXCEPT ![b] = None] ELSE channel
            /\ IF leads /\ b \notin reopened'
               THEN Expose(b, HighWatermark(b, new.isr, None, flushed[b], Len(log[b]), told),
                           log[b], new.isr, waiting[b])
               ELSE /\ waiting' = IF Flawed("deposed-answers") THEN waiting
                                  ELSE [waiting EXCEPT ![b] = {}]
                    /\ UNCHANGED <<exposed, promises>>
    /\ UNCHANGED <<zookeeper, up, emptied, disks, counters>>

(* R6. The controller makes a leader of the ISR, the epoch one higher, and takes brokers out of
   the ISR. Whom it holds for dead is left open, so that it may be late, or wrong. *)
Elect ==
    /\ \E leader \in Map.isr : \E others \in SUBSET (Map.isr \ {leader}) :
        Change([leader |-> leader, epoch |-> Map.epoch + 1, isr |-> {leader} \cup others])
    /\ UNCHANGED <<known, up, reopened, emptied, disks, exposed, leadership, channel, promises,
                   counters>>

(* R6. With unclean.leader.election.enable, any replica leads, and is alone in the ISR. *)
ElectUnclean ==
    /\ Unclean \/ Flawed("unclean-leader")
    /\ \E leader \in Brokers \ Map.isr :
        Change([leader |-> leader, epoch |-> Map.epoch + 1, isr |-> {leader}])
    /\ UNCHANGED <<known, up, reopened, emptied, disks, exposed, leadership, channel, promises,
                   counters>>

-----------------------------------------------------------------------------
(* Faults *)

(* What brokers lose when their processes end. An answer that has been received is gone, a fetch
   that was sent may still be served. Of the high watermark, a checkpoint may know nothing. *)
Forget(dead) ==
    /\ up' = up \ dead
    /\ known' = [b \in Brokers |-> IF b \in dead THEN 0 ELSE known[b]]
    /\ reopened' = reopened \ dead
    /\ progress' = [b \in Brokers |-> IF b \in dead THEN Nobody ELSE progress[b]]
    /\ begun' = [b \in Brokers |-> IF b \in dead THEN 0 ELSE begun[b]]
    /\ proposed' = [b \in Brokers |-> IF b \in dead THEN None ELSE proposed[b]]
    /\ waiting' = [b \in Brokers |-> IF b \in dead THEN {} ELSE waiting[b]]
    /\ channel' = [b \in Brokers |->
         IF b \in dead /\ channel[b] # None /\ channel[b].kind # "fetch" THEN None ELSE channel[b]]
    /\ exposed' = [b \in Brokers |->
         IF b \in dead THEN start[b] ELSE exposed[b]]

(* A process is killed: the page cache survives. *)
Crash(b) ==
    /\ b \in up
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ Forget({b})
    /\ UNCHANGED <<zookeeper, emptied, disks, promises, stated, appended, asked, powerLosses, diskLosses,
                   trims>>

(* Power is lost, by one broker or by all: of what was not flushed, any beginning is left. *)
LosePower ==
    /\ powerLosses < MaxPowerLosses
    /\ powerLosses' = powerLosses + 1
    /\ \E dead \in (SUBSET Brokers) \ {{}} :
        /\ \E lost \in [dead -> 0..MaxRecords] :
            /\ \A b \in dead : lost[b] <= Len(log[b]) - flushed[b]
            /\ log' = [b \in Brokers |->
                 IF b \in dead THEN First(log[b], Len(log[b]) - lost[b]) ELSE log[b]]
        /\ flushed' = [b \in Brokers |-> IF b \in dead THEN Len(log'[b]) ELSE flushed[b]]
        /\ Forget(dead)
    /\ UNCHANGED <<zookeeper, emptied, start, promises, stated, appended, asked, crashes, diskLosses,
                   trims>>

(* A disk is replaced by an empty one. *)
LoseDisk(b) ==
    /\ diskLosses < MaxDiskLosses
    /\ diskLosses' = diskLosses + 1
    /\ log' = [log EXCEPT ![b] = <<>>]
    /\ flushed' = [flushed EXCEPT ![b] = 0]
    /\ start' = [start EXCEPT ![b] = 0]
    /\ Forget({b})
    /\ emptied' = emptied \cup {b}
    /\ UNCHANGED <<zookeeper, promises, stated, appended, asked, crashes, powerLosses, trims>>

(* R10. Before it registers, unless it is alone in it: then the loss is stated. The epoch is raised
   whether it was in sync or not, for what the leader knows of it is no longer so. *)
LeaveInSync(b) ==
    /\ b \notin up
    /\ b \in emptied
    /\ emptied' = emptied \ {b}
    /\ stated' = (stated \/ Map.isr = {b})
    /\ LET left == [Map EXCEPT !.isr = @ \ {b}, !.leader = IF @ = b THEN None ELSE @]
       IN  CASE Map.isr = {b} \/ Flawed("stays-in-isr") -> UNCHANGED zookeeper
             [] Flawed("leaves-without-epoch") ->
                    IF b \in Map.isr THEN Change(left) ELSE UNCHANGED zookeeper
             [] OTHER -> Change([left EXCEPT !.epoch = @ + 1])
    /\ UNCHANGED <<known, up, reopened, disks, exposed, leadership, channel, promises, appended,
                   asked, crashes, powerLosses, diskLosses, trims>>

(* R7. A session with ZooKeeper that begins sees all that was changed before it began. *)
Restart(b) ==
    /\ b \notin up
    /\ b \notin emptied
    /\ up' = up \cup {b}
    /\ \E place \in (IF Flawed("stale-start") THEN 1 ELSE Len(history)) .. Len(history) :
        LET leads == history[place].leader = b
        IN  /\ known' = [known EXCEPT ![b] = place]
            /\ reopened' = IF leads /\ ~Flawed("no-raise") THEN reopened \cup {b} ELSE reopened
            /\ begun' = [begun EXCEPT ![b] = IF leads THEN Len(log[b]) ELSE 0]
    /\ channel' = [channel EXCEPT ![b] = None]
    /\ exposed' = [exposed EXCEPT ![b] = IF Flawed("exposes-at-start") THEN Len(log[b]) ELSE @]
    /\ seen' = IF exposed'[b] > Len(seen) THEN Ids(log[b]) ELSE seen
    /\ UNCHANGED <<zookeeper, emptied, disks, progress, proposed, waiting, acked, counters>>

-----------------------------------------------------------------------------

Init ==
    /\ \E leader \in Brokers : \E others \in SUBSET (Brokers \ {leader}) :
        history = <<[leader |-> leader, epoch |-> 1, isr |-> {leader} \cup others]>>
    /\ proposals = {}
    /\ known = [b \in Brokers |-> 1]
    /\ up = Brokers
    /\ reopened = {}
    /\ emptied = {}
    /\ log = [b \in Brokers |-> <<>>]
    /\ start = Nobody
    /\ flushed = Nobody
    /\ exposed = Nobody
    /\ progress = [b \in Brokers |-> Nobody]
    /\ begun = Nobody
    /\ proposed = [b \in Brokers |-> None]
    /\ waiting = [b \in Brokers |-> {}]
    /\ channel = [b \in Brokers |-> None]
    /\ seen = <<>>
    /\ acked = {}
    /\ stated = FALSE
    /\ appended = 0
    /\ asked = 0
    /\ crashes = 0
    /\ powerLosses = 0
    /\ diskLosses = 0
    /\ trims = 0

Next ==
    \/ \E b \in Brokers :
        \/ Produce(b)
        \/ Flush(b)
        \/ ProposeInSync(b)
        \/ RaiseEpoch(b)
        \/ Trim(b)
        \/ SendFetch(b)
        \/ ServeFetch(b)
        \/ ReceiveAnswer(b)
        \/ Learn(b)
        \/ Crash(b)
        \/ LoseDisk(b)
        \/ LeaveInSync(b)
        \/ Restart(b)
    \/ ProposalArrives
    \/ Elect
    \/ ElectUnclean
    \/ LosePower

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Brokers)

(* States that differ in what nobody can read any more are one state. *)
Oldest == Minimum({known[b] : b \in up} \cup {Len(history)})
View == <<SubSeq(history, Oldest, Len(history)), [b \in up |-> known[b] - Oldest], Len(history),
          proposals, up, reopened, emptied, disks, exposed, leadership, channel, promises,
          counters>>

-----------------------------------------------------------------------------
(* What must always hold *)

(* R1. *)
Order == \A b \in Brokers :
    start[b] <= exposed[b] /\ exposed[b] <= flushed[b] /\ flushed[b] <= Len(log[b])

(* A consumer that reads below any high watermark reads what every other read at that offset. *)
SeenStays == \A b \in Brokers :
    \A i \in start[b] + 1 .. exposed[b] : i <= Len(seen) /\ log[b][i].id = seen[i]

(* Every replica that may be elected has on its disk all that anybody saw. *)
InSyncHaveAll == \A b \in Map.isr :
    /\ Len(seen) <= flushed[b]
    /\ \A i \in start[b] + 1 .. Len(seen) : log[b][i].id = seen[i]

(* What acks=all was told is in the log of whoever leads the newest epoch. *)
AckedKept == \A b \in Brokers :
    ~stated /\ Leads(b) /\ Info(b).epoch = Map.epoch =>
        \A each \in acked :
            /\ each.offset < Len(log[b])
            /\ each.offset >= start[b] => log[b][each.offset + 1].id = each.id

(* An epoch has one leader. *)
OneLeader == \A a, b \in Brokers : Leads(a) /\ Leads(b) /\ a # b => Info(a).epoch # Info(b).epoch

(* A leader and an epoch stamp an offset once: two logs that have it there have the same record. *)
EpochsName == \A a, b \in Brokers :
    \A i \in Most(start[a], start[b]) + 1 .. Least(Len(log[a]), Len(log[b])) :
        log[a][i].epoch = log[b][i].epoch => log[a][i].id = log[b][i].id

=============================================================================
