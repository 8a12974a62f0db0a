/*
 * With JOURNAL, the verifier reads a journal and looks for a run of the model that
 * appends exactly its records. It reports that the assertion !accepted is violated if
 * there is one. The engine then does as it is told, because the model's steps may fail
 * anyway; each group has one service.
 *
 * KOLLET_MODEL_JOURNAL names a file of numbers, which journal.go writes:
 *
 *	groups, quiesces, whether the disk fails, and for each group whether it has guests
 *	for each record: event, step, outcome
 */

#ifdef JOURNAL
c_decl {
static unsigned char records[4096][3];
static int length, diskFails;
}

short at; /* the next record */
byte theEvent, theStep, theOutcome;
bool accepted;

#define DISK_FAILS c_expr { diskFails }

/* Warnings may be anywhere, and are left out of the file. */
#define RECORD(event, step, outcome) \
	theEvent = event; theStep = step; theOutcome = outcome; \
	if \
	:: theEvent == WARNING \
	:: theEvent != WARNING -> \
		c_expr { now.at < length && records[now.at][0] == now.theEvent && \
			records[now.at][1] == now.theStep && records[now.at][2] == now.theOutcome }; \
		at++; \
		accepted = c_expr { now.at == length }; \
		assert(!accepted) \
	fi; \
	theEvent = 0; theStep = 0; theOutcome = 0

init {
	atomic {
		c_code {
			FILE *f = fopen(getenv("KOLLET_MODEL_JOURNAL"), "r");
			int i, groups, quiesces, guests, record[3];
			if (!f || fscanf(f, "%d %d %d", &groups, &quiesces, &diskFails) != 3) exit(99);
			now.groups = now.services = groups;
			now.quiesces = quiesces;
			now.healthy = 1;
			for (i = 0; i < groups; i++) {
				if (fscanf(f, "%d", &guests) != 1) exit(99);
				now.group[i] = i;
				now.guests[i] = guests;
				now.had[i] = now.has[i] = now.oldRestart[i] = 1;
				now.old[i] = RUNNING;
			}
			for (length = 0; fscanf(f, "%d %d %d", &record[0], &record[1], &record[2]) == 3; length++) {
				if (length == 4096) exit(99);
				for (i = 0; i < 3; i++) records[length][i] = record[i];
			}
			fclose(f);
		};
		for (s : 0 .. services - 1) { run Service(s) };
		s = 0;
		run Kollet()
	}
}

#else
#define DISK_FAILS true
#define RECORD(event, step, outcome) skip
#endif
