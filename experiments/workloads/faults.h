/* SPDX-License-Identifier: GPL-2.0 */
/*
 * faults.h - which mapping of this program each of its major faults was in: the kernel's own event
 * of major faults, with the address of each, in a ring that is read afterwards. So nothing is
 * touched meanwhile that the program would not touch by itself.
 *
 * Needs CONFIG_PERF_EVENTS and the right to use it; without them nothing is counted by mapping.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "lib.h"

#define FAULTS_RING (64 * 4096) /* 10,000 faults */
#define FAULTS_MAPS (64 * 1024)
#define FAULTS_MOST 64 /* mappings that have faults */

static struct perf_event_mmap_page *faults_ring; /* NULL: not available */

static inline void faults_begin(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_ADDR,
	};
	int event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (event < 0)
		return;
	faults_ring = mmap(NULL, 4096 + FAULTS_RING, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	if (faults_ring == MAP_FAILED)
		faults_ring = NULL;
}

/* Forgets the faults so far. */
static inline void faults_forget(void)
{
	if (faults_ring)
		faults_ring->data_tail = __atomic_load_n(&faults_ring->data_head, __ATOMIC_ACQUIRE);
}

/* The last part of the name of the mapping that has the address, in a text of /proc/PID/maps. */
static inline const char *faults_mapping(char *maps, uint64_t address, int *length)
{
	for (char *line = maps, *end; (end = strchr(line, '\n')); line = end + 1) {
		unsigned long long from, to;
		int at = 0;

		if (sscanf(line, "%llx-%llx %*s %*s %*s %*s%n", &from, &to, &at) != 2 ||
		    address < from || address >= to)
			continue;
		const char *name = line + at;

		for (const char *c = name; c < end; c++)
			if (*c == '/' || *c == ' ')
				name = c + 1;
		*length = end - name;
		return *length ? name : NULL;
	}
	return NULL;
}

/* Prints the faults since faults_forget() by mapping, as a JSON object. */
static inline void faults_print(void)
{
	static char maps[FAULTS_MAPS];
	struct {
		const char *name;
		int length, faults;
	} found[FAULTS_MOST];
	int n = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	maps[file ? fread(maps, 1, sizeof(maps) - 1, file) : 0] = '\0';
	if (file)
		fclose(file);
	uint64_t head =
		faults_ring ? __atomic_load_n(&faults_ring->data_head, __ATOMIC_ACQUIRE) : 0;
	uint64_t at = faults_ring ? faults_ring->data_tail : 0;

	while (at < head) {
		const char *data = (const char *)faults_ring + 4096;
		const struct perf_event_header *header = (const void *)(data + at % FAULTS_RING);
		const uint64_t *address =
			(const void *)(data + (at + sizeof(*header)) % FAULTS_RING);
		int length = 0, i;

		at += header->size;
		if (header->type != PERF_RECORD_SAMPLE)
			continue;
		const char *name = faults_mapping(maps, *address, &length);

		if (!name)
			name = "anonymous", length = strlen(name);
		for (i = 0; i < n; i++)
			if (found[i].length == length && !strncmp(found[i].name, name, length))
				break;
		if (i == FAULTS_MOST)
			continue;
		if (i == n)
			found[n].name = name, found[n].length = length, found[n++].faults = 0;
		found[i].faults++;
	}
	faults_forget();
	printf("{");
	for (int i = 0; i < n; i++)
		printf("%s\"%.*s\": %d", i ? ", " : "", found[i].length, found[i].name,
		       found[i].faults);
	printf("}");
}

#endif /* FAULTS_H */
