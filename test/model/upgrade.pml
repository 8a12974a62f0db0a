/*
 * The upgrade protocol of agent/upgrade as a model for spin. Steps, events and
 * functions have the code's names. docs/development.md describes what is modelled
 * and what is not; model_test.go runs it.
 *
 * A transaction takes a node from an old generation to a new one. Kollet is the
 * upgrade and, after it was killed or gave up, the recovery. Service is what
 * the engine and kollet-start do with the containers of one service, and their exits.
 * Engine is its start, and Faults does everything else that can go wrong, as often as it likes and then no more. When all of that is
 * over, the node must be on one of the two generations.
 *
 * Switches:
 *   SERVICES=N   how many services there are
 *   BREAK_...    the protocol without one of its precautions: spin must find out
 *   JOURNAL      accept one journal, instead of searching all runs: see journal.pml
 */

#ifndef SERVICES
#define SERVICES 3
#endif

/* Steps in the order of agent/upgrade/steps.go. Those from PROTECT_GUESTS to
 * FIND_GUESTS exist for each group. */
#define CHECK       1
#define PULL        2
#define RENDER      3
#define STAGE       4
#define CHECK_AGAIN 5
#define QUIESCE     6
#define PROTECT_GUESTS(g) (7 + 3 * (g))
#define CUT_OVER(g)       (8 + 3 * (g))
#define FIND_GUESTS(g)    (9 + 3 * (g))
#define VERIFY            (7 + 3 * SERVICES)

#define GROUP(step) (((step) - 7) / 3)
#define PART(step)  (((step) - 7) % 3) /* 1: its cutover */
#define isCutover(step) ((step) > QUIESCE && (step) < VERIFY && PART(step) == 1)
#define isStep(step) ((step) < QUIESCE || (step) == VERIFY || \
	(step) == QUIESCE && quiesces || \
	(step) > QUIESCE && (step) < VERIFY && GROUP(step) < groups && (PART(step) == 1 || guests[GROUP(step)]))
#define canUndo(step) (isStep(step) && ((step) == RENDER || (step) == STAGE || (step) == QUIESCE || isCutover(step)))
#define touched() (groups > 0 && started >= CUT_OVER(0))

/* Events and outcomes of agent/journal/record.go. */
#define BEGIN  1
#define INTENT 2
#define DONE   3
#define FAILED 4
#define UNDO   5
#define UNDONE 6
#define COMMIT 7
#define END    8
#define WARNING 9

#define COMMITTED   1
#define UNCHANGED   2
#define ROLLED_BACK 3
#define DISCARDED   4
#define DEFERRED    5
#define STUCK       6

/* States of a container. */
#define ABSENT     0
#define EXITED     1
#define RESTARTING 2 /* the engine is about to start it, whatever its policy becomes */
#define WAITING    3 /* at its gate */
#define RUNNING    4 /* past its gate */

/* The upgrade. */
byte services;            /* how many change */
byte groups;              /* of services, in the order of their cutovers */
byte group[SERVICES];     /* the group of a service */
bool had[SERVICES];       /* the old generation has it */
bool has[SERVICES];       /* the new generation has it */
bool quiesces;            /* there is a quiesce step */
bool guests[SERVICES];    /* a group's services start guests */
bool healthy;             /* the new generation can become healthy */

/* The engine: containers, and whether the engine restarts them. */
bool up = true;
byte old[SERVICES], new[SERVICES];
bool oldRestart[SERVICES], newRestart[SERVICES];

/* The state directory. */
bool exists;              /* the journal; it may be empty */
byte started;             /* the last step whose intent is in the journal */
bool previous[SERVICES];  /* has a container that the intents of cutovers name */
bool committed, ended;
bool rendered;            /* the new generation's directory exists */
bool open[SERVICES];      /* the gates in it */
bool synced;              /* open gates are on stable storage */
bool isNew;               /* current links to the new generation */

bool promoted;            /* the engine was told of a new container's policy */
bool faulty = true;       /* something may still go wrong */

/* Kollet's memory. */
bool alive;
bool killed;              /* the power failed */
bool failed;              /* what it just did failed */
bool known;               /* which services the new generation has */
bool held[SERVICES];      /* the old process that runs is the one that it opened */
bool stopping[SERVICES];  /* old tasks */
bool listed[SERVICES];    /* containers that the engine listed as not stopped */
byte step, s, outcome;

#include "journal.pml"

/* Never two containers of a service past the gate. */
inline passOld(i) { assert(new[i] != RUNNING); old[i] = RUNNING }
inline passNew(i) { assert(old[i] != RUNNING); new[i] = RUNNING }

inline startOld(i) {
	if
	:: old[i] == EXITED || old[i] == RESTARTING -> passOld(i)
	:: else
	fi
}

inline startNew(i) {
	if
	:: (new[i] == EXITED || new[i] == RESTARTING) && open[i] -> passNew(i)
	:: (new[i] == EXITED || new[i] == RESTARTING) && !open[i] -> new[i] = WAITING
	:: else
	fi
}

inline stopOld(i) {
	held[i] = false;
	if
	:: old[i] != ABSENT -> old[i] = EXITED
	:: else
	fi
}

inline stopNew(i) {
	if
	:: new[i] != ABSENT -> new[i] = EXITED
	:: else
	fi
}

/* A process of a container exits. */
inline exitOld(i) {
	held[i] = false;
	if
	:: up && oldRestart[i] -> old[i] = RESTARTING
	:: else -> old[i] = EXITED
	fi
}

inline exitNew(i) {
	if
	:: up && newRestart[i] -> new[i] = RESTARTING
	:: else -> new[i] = EXITED
	fi
}

/* What kollet does may be the last that it does, and may fail. A call of the
 * engine that failed may have had its effect nevertheless. */
#define CALL(effect) atomic { \
	if \
	:: up -> effect \
	:: !up || faulty -> failed = true \
	:: up && faulty -> effect; failed = true \
	:: faulty -> goto giveUp \
	fi }

#define WORK(effect) atomic { \
	if \
	:: effect \
	:: faulty -> failed = true \
	:: faulty -> effect; failed = true \
	:: faulty -> goto giveUp \
	fi }

/* A record that could not be appended is not in the journal. */
#define APPEND(event, step, outcome, effect) atomic { \
	if \
	:: RECORD(event, step, outcome); effect \
	:: faulty && DISK_FAILS -> failed = true \
	:: faulty -> goto giveUp \
	fi }

/* A step is undone even if that cannot be recorded. */
#define APPEND_IF_POSSIBLE(event, step) APPEND(event, step, 0, skip); failed = false

#define each      for (s : 0 .. services - 1)
#define backwards s = services; do :: s == 0 -> break :: else -> s--;
#define orElse(label) if :: failed -> goto label :: else fi

inline forget() {
	d_step {
		alive = false; killed = false; failed = false; known = false;
		step = 0; outcome = 0;
		for (s : 0 .. SERVICES - 1) { held[s] = false; stopping[s] = false; listed[s] = false }
		s = 0
	}
}

/* Stage brings the new containers to their gates. */
inline stage() {
	each {
		if
		:: has[s] ->
			CALL(new[s] = EXITED); orElse(acted); /* Create */
			CALL(startNew(s)); orElse(acted);
			WORK(failed = new[s] != WAITING); orElse(acted)
		:: else
		fi
	};
	WORK(skip) /* guestsFit */
}

/* Running finds the containers that a cutover stops. */
inline running() {
	each {
		if
#ifdef BREAK_SNAPSHOT
		:: group[s] == GROUP(step) -> listed[s] = old[s] == RUNNING
#else
		:: group[s] == GROUP(step) -> listed[s] = old[s] == RUNNING || old[s] == RESTARTING
#endif
		:: else
		fi
	}
}

inline recordPrevious() {
	each {
		if
		:: isCutover(step) && group[s] == GROUP(step) -> previous[s] = listed[s]
		:: else
		fi
	}
}

/* OldTasks tells the engine not to restart the old containers, and opens their
 * processes. */
inline oldTasks() {
	each {
		if
		:: group[s] == GROUP(step) && previous[s] ->
#ifdef BREAK_PID
			CALL(held[s] = old[s] == RUNNING); orElse(acted); /* Inspect, then Update */
			CALL(oldRestart[s] = false); orElse(acted);
			stopping[s] = held[s]
#else
#ifndef BREAK_POLICY
			CALL(oldRestart[s] = false); orElse(acted);
#endif
			CALL(held[s] = old[s] == RUNNING); orElse(acted);
			stopping[s] = true
#endif
		:: else
		fi
	}
}

inline newTasks() {
	each {
		if
		:: group[s] == GROUP(step) && has[s] -> CALL(failed = new[s] != WAITING); orElse(acted)
		:: else
		fi
	}
}

inline stopAll() {
	backwards
		if
		:: group[s] == GROUP(step) && stopping[s] ->
			if
			:: held[s] -> WORK(exitOld(s)); orElse(acted) /* stopFast */
			:: !held[s] -> CALL(stopOld(s)); orElse(acted)
			fi
		:: else
		fi
	od
}

inline openAll() {
	each {
		if
		:: group[s] == GROUP(step) && has[s] -> WORK(open[s] = true); orElse(acted)
		:: else
		fi
	}
}

inline cleanUp() {
	each {
		if
		:: group[s] == GROUP(step) && stopping[s] -> CALL(stopOld(s)); orElse(acted); stopping[s] = false
		:: else
		fi
	}
}

inline cutOver() {
	oldTasks();
	newTasks();
#ifdef BREAK_GATE
	openAll();
	stopAll();
#else
	stopAll();
	openAll();
#endif
	cleanUp()
}

inline verify() {
	each {
		if
		:: !has[s] || new[s] == RUNNING
		:: has[s] && (new[s] == EXITED || faulty) -> failed = true; goto acted
		fi
	};
	WORK(failed = !healthy)
}

inline stopNewTasks() {
	backwards
		if
		:: group[s] == GROUP(step) && known && new[s] != ABSENT -> CALL(stopNew(s)); orElse(undid)
		:: else
		fi
	od
}

inline startAgain() {
	each {
		if
		:: group[s] == GROUP(step) && previous[s] && old[s] != ABSENT ->
			CALL(oldRestart[s] = true); orElse(undid);
			CALL(startOld(s)); orElse(undid)
		:: else
		fi
	}
}

/* RevertCutover undoes a cutover, finished or not. */
inline revertCutover() {
#ifdef BREAK_UNDO
	startAgain();
	stopNewTasks()
#else
	stopNewTasks();
	startAgain()
#endif
}

inline unstage() {
	each {
		if
		:: new[s] != ABSENT ->
			CALL(stopNew(s)); orElse(undid);
			CALL(new[s] = ABSENT); orElse(undid)
		:: else
		fi
	}
}

inline discard() {
	WORK(rendered = false; for (s : 0 .. services - 1) { open[s] = false })
}

/* Tidy follows a commit. */
inline tidy() {
	CALL(each { listed[s] = old[s] == RUNNING || old[s] == RESTARTING }); orElse(giveUp);
	each { /* demote */
		if
		:: old[s] != ABSENT ->
			if
			:: listed[s] ->
#ifndef BREAK_DEMOTE
				CALL(oldRestart[s] = false); orElse(giveUp);
#endif
				CALL(stopOld(s)); orElse(giveUp)
			:: else
			fi;
			CALL(oldRestart[s] = false); orElse(giveUp)
		:: else
		fi
	};
	each { /* promote */
		if
		:: has[s] ->
			CALL(failed = new[s] == ABSENT); orElse(giveUp);
			CALL(newRestart[s] = true; promoted = true); orElse(giveUp);
			CALL(startNew(s)); orElse(giveUp)
		:: else
		fi
	};
	WORK(isNew = true); orElse(giveUp); /* SetCurrent */
	each { /* Collect */
		if
		:: old[s] != ABSENT ->
			CALL(stopOld(s)); orElse(giveUp);
			CALL(old[s] = ABSENT); orElse(giveUp)
		:: else
		fi
	}
}

/* The journal's end is true: the node is wholly on one generation. The test expects
 * that each of these ends is reached. */
inline checkEnd() {
	if
	:: outcome == COMMITTED   -> printf("end: committed\n")
	:: outcome == UNCHANGED   -> printf("end: nothing to do\n")
	:: outcome == ROLLED_BACK -> printf("end: rolled back\n")
	:: outcome == DISCARDED   -> printf("end: discarded\n")
	:: outcome == DEFERRED    -> printf("end: deferred\n")
	:: outcome == STUCK       -> printf("end: needs an operator\n")
	fi;
	if
	:: committed ->
		assert(healthy && isNew);
		for (s : 0 .. services - 1) {
			assert(old[s] == ABSENT);
			assert(!has[s] || new[s] != ABSENT && newRestart[s] && open[s])
		}
	:: !committed ->
		assert(!isNew && !rendered);
		for (s : 0 .. services - 1) {
			assert(new[s] == ABSENT);
			assert(!had[s] || old[s] != ABSENT && oldRestart[s])
		}
	fi
}

/* Commit is one record. If it cannot be appended, it may be in the journal
 * nevertheless. The next record that is appended removes it: nothing is undone before. */
inline commit() {
	atomic {
		if
		:: RECORD(COMMIT, 0, 0); committed = true
		:: faulty && DISK_FAILS -> failed = true
		:: faulty && DISK_FAILS -> failed = true; committed = true
		:: faulty -> goto giveUp
		fi
	};
	if
	:: failed ->
		failed = false;
#ifndef BREAK_DOUBT
		APPEND(WARNING, 0, 0, committed = false); orElse(giveUp);
#endif
		goto rollBack
	:: else
	fi
}

proctype Kollet()
{
	do
	:: ended -> break
	:: atomic { !ended && (!exists || up) -> alive = true };
	{
		if
		:: exists -> goto recovery
		:: else
		fi;
		WORK(exists = true); orElse(giveUp);
		APPEND(BEGIN, 0, 0, skip); orElse(giveUp);
		known = true;
		step = 1;
		do
		:: step > VERIFY -> break
#ifdef BREAK_COMMIT
		:: step == VERIFY -> break
#endif
		:: step <= VERIFY && !isStep(step) -> step++
		:: step <= VERIFY && isStep(step) ->
			WORK(skip); orElse(rollBack); /* a signal interrupts it */
			if
			:: isCutover(step) -> CALL(running()); orElse(rollBack)
			:: else
			fi;
			APPEND(INTENT, step, 0, started = step; recordPrevious()); orElse(rollBack);
			if
			:: step == RENDER -> WORK(rendered = true)
			:: step == STAGE -> stage()
			:: isCutover(step) -> cutOver()
			:: step == VERIFY -> verify()
			:: else -> WORK(skip)
			fi;
	acted:		if
			:: failed -> failed = false; APPEND(FAILED, step, 0, skip); goto rollBack
			:: else
			fi;
			APPEND(DONE, step, 0, skip); orElse(rollBack);
			if
			:: step == CHECK_AGAIN && groups == 0 -> outcome = UNCHANGED; goto undoAll
			:: step == CHECK_AGAIN && groups == 0 /* but the record differs */
			:: else
			fi;
			step++
		od;

#ifndef BREAK_SYNC
		WORK(synced = true); orElse(rollBack); /* syncGates */
#endif
		commit();
		goto tidying;

	recovery:
		known = rendered;
		if
		:: committed -> goto tidying
#ifdef BREAK_RECOVERY
		:: !committed && started == VERIFY && new[0] == RUNNING -> goto tidying
#endif
		:: else -> goto undoAll
		fi;

	tidying:
		tidy();
		outcome = COMMITTED;
		goto finish;

	rollBack:
		failed = false;
	undoAll:
		step = started;
		do
		:: step == 0 -> break
		:: step > 0 && !canUndo(step) -> step--
		:: step > 0 && canUndo(step) ->
			APPEND_IF_POSSIBLE(UNDO, step);
			if
			:: isCutover(step) -> revertCutover()
			:: step == STAGE -> unstage()
			:: step == RENDER -> discard()
			:: else -> WORK(skip)
			fi;
	undid:		if
			:: failed -> failed = false; APPEND(FAILED, step, 0, skip); goto giveUp
			:: else
			fi;
			APPEND_IF_POSSIBLE(UNDONE, step);
			step--
		od;
		if
		:: outcome == UNCHANGED
		:: outcome == 0 && touched() -> outcome = ROLLED_BACK
		:: outcome == 0 && touched() -> outcome = STUCK
		:: outcome == 0 && !touched() -> outcome = DISCARDED
		:: outcome == 0 && !touched() -> outcome = DEFERRED
		fi;

	finish:
		APPEND(END, 0, outcome, ended = true; checkEnd());

	giveUp:	skip
	} unless { killed };
	forget()
	od
}

/* What the engine and kollet-start do with a service's containers, and their exits. */
proctype Service(byte i)
{
end:	do
	:: atomic { up && old[i] == RESTARTING -> passOld(i) }
	:: atomic { up && new[i] == RESTARTING -> startNew(i) }
	:: atomic { new[i] == WAITING && open[i] -> passNew(i) }
#ifndef JOURNAL
	:: atomic { faulty && old[i] == RUNNING -> exitOld(i) }
	:: atomic { faulty && (new[i] == RUNNING || new[i] == WAITING) -> exitNew(i) }
#endif
	od
}

/* The engine starts. Without live restore it ends what still runs, and then starts
 * containers by their policies. */
proctype Engine()
{
	byte i;
	bool keeps;
end:	do
	:: atomic { !up ->
		if
		:: keeps = true
		:: keeps = false
		fi;
		for (i : 0 .. services - 1) {
			if
			:: !keeps -> stopOld(i); stopNew(i)
			:: else
			fi;
			if
			:: old[i] == EXITED && oldRestart[i] -> old[i] = RESTARTING
			:: else
			fi;
			if
			:: new[i] == EXITED && newRestart[i] -> new[i] = RESTARTING
			:: else
			fi
		};
		up = true; i = 0; keeps = false
	}
	od
}

inline killEngine() {
	up = false;
	for (i : 0 .. services - 1) {
		if
		:: old[i] == RESTARTING -> old[i] = EXITED
		:: else
		fi;
		if
		:: new[i] == RESTARTING -> new[i] = EXITED
		:: else
		fi
	};
	i = 0
}

/* The power fails. A gate that is not on stable storage may be closed again. So may
 * be the engine's note that an old container must not be restarted; but it is older
 * than any note about a new one, and is not lost alone. */
inline powerLoss() {
	up = false;
	killed = alive;
	for (i : 0 .. services - 1) {
		stopOld(i);
		stopNew(i);
		if
		:: open[i] && !synced -> open[i] = false
		:: skip
		fi
	};
	i = 0;
	if
	:: !promoted -> for (i : 0 .. services - 1) { oldRestart[i] = had[i] }; i = 0
	:: skip
	fi
}

/* Everything else that goes wrong, until nothing does any longer. Then every run has to
 * come to one of its two ends, which is why this is where spin sees progress. */
proctype Faults()
{
	byte i;
progress:
	do
	:: atomic { up -> killEngine() }
	:: atomic { powerLoss() }
	:: faulty = false -> break
	od;
	timeout;
	assert(ended);
	for (i : 0 .. services - 1) {
		assert(committed -> !has[i] || new[i] == RUNNING : !had[i] || old[i] == RUNNING)
	}
}

#ifndef JOURNAL
/* A service is replaced, added or removed. */
inline choose(i) {
	if
	:: had[i] = true; has[i] = true
	:: services < 3 -> has[i] = true
	:: services < 3 -> had[i] = true
	fi;
	old[i] = (had[i] -> RUNNING : ABSENT);
	oldRestart[i] = had[i];
	if
	:: i > 0 && (services == 3 || !has[i] || !has[0]) -> group[i] = 1
	:: i > 0 && services < 3 && has[i] && has[0] -> group[i] = 0
	:: i == 0
	fi;
	groups = group[i] + 1
}

/* All kinds of upgrades: of no service to three, the second and third in a group. The
 * optional steps, which stop and start nothing, are there if there are few services. */
init {
	atomic {
		select(services : 0 .. SERVICES);
		for (s : 0 .. services - 1) { choose(s) };
		if
		:: healthy = true
		:: services < 3 -> healthy = false
		fi;
		quiesces = services == 1;
		guests[0] = services == 1;
		for (s : 0 .. services - 1) { run Service(s) };
		s = 0;
		run Kollet(); run Engine(); run Faults()
	}
}
#endif
