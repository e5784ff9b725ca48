/* SPDX-License-Identifier: GPL-2.0 */
/*
 * editor MB IDLE_S RETURNS [NAME=FILE]… - a program that its user leaves for a while and returns
 * to: it has MB of anonymous memory and has mapped the files. A file that may be executed is mapped
 * as a loader maps a library's code, another one as a document. Once at the start, and at each
 * return after IDLE_S of sleep, it touches each page: of its own program file, of the memory (which
 * it writes to), and of the files.
 *
 * Prints a line of JSON for each return: how long it took from the time at which the sleep was to
 * end, its major faults, how long each part took, and the faults by mapping (faults.h). The lines
 * are printed at once, so that those of a program that was killed remain.
 */
#define _GNU_SOURCE /* dl_iterate_phdr() */
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "faults.h"
#include "lib.h"

#define PAGE 4096
#define MOST_FILES 8

struct part {
	const char *name;
	volatile char *memory; /* NULL: the program's own file */
	int64_t bytes, ns;
	int write;
};

static int64_t major_faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_majflt;
}

static void map_file(struct part *part, char *word)
{
	char *path = strchr(word, '=');
	struct stat about;

	if (!path) {
		fprintf(stderr, "'%s' is no NAME=FILE\n", word);
		exit(2);
	}
	*path++ = '\0';
	int file = open(path, O_RDONLY);

	if (file < 0 || fstat(file, &about))
		fail(path);
	int rights = PROT_READ | (about.st_mode & S_IXUSR ? PROT_EXEC : 0);

	part->name = word;
	part->bytes = about.st_size;
	part->memory = mmap(NULL, part->bytes, rights, MAP_PRIVATE, file, 0);
	if (part->memory == MAP_FAILED)
		fail(path);
	close(file);
}

/* Reads each page of the program's loaded segments. The program is static. */
static int read_program(struct dl_phdr_info *object, size_t size, void *unused)
{
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		const volatile char *from = (char *)(object->dlpi_addr + segment->p_vaddr);

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_R)
			for (size_t k = 0; k < segment->p_filesz; k += PAGE)
				(void)from[k];
	}
	return 1; /* the first is the program, a second the kernel's vDSO */
}

static void touch(struct part *part)
{
	int64_t from = now_ns();

	if (!part->memory)
		dl_iterate_phdr(read_program, NULL);
	for (int64_t i = 0; i < part->bytes; i += PAGE) {
		if (part->write)
			part->memory[i]++;
		else
			(void)part->memory[i];
	}
	part->ns = now_ns() - from;
}

int main(int count, char **words)
{
	if (count < 4 || count > 4 + MOST_FILES) {
		fprintf(stderr, "usage: editor MB IDLE_S RETURNS [NAME=FILE]…\n");
		return 2;
	}
	struct part parts[2 + MOST_FILES] = {
		{ .name = "program" },
		{ .name = "memory", .bytes = number("MB", words[1], 1, 1 << 20) << 20, .write = 1 },
	};
	int64_t idle = number("IDLE_S", words[2], 0, 100000) * NS_PER_S;
	int64_t returns = number("RETURNS", words[3], 1, 100000);
	int n = 2;

	for (int i = 4; i < count; i++)
		map_file(&parts[n++], words[i]);
	parts[1].memory = mmap(NULL, parts[1].bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (parts[1].memory == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < n; i++) /* the start */
		touch(&parts[i]);
	faults_begin();
	for (int64_t k = 0; k < returns; k++) {
		int64_t faults = major_faults(), due = now_ns() + idle;

		faults_forget();
		sleep_until_ns(due);
		for (int i = 0; i < n; i++)
			touch(&parts[i]);
		printf("{\"ms\": %.3f, \"major_faults\": %lld, \"parts_ms\": {",
		       (now_ns() - due) / 1e6, (long long)(major_faults() - faults));
		for (int i = 0; i < n; i++)
			printf("%s\"%s\": %.3f", i ? ", " : "", parts[i].name, parts[i].ns / 1e6);
		printf("}, \"faults_of\": ");
		faults_print();
		printf("}\n");
		fflush(stdout);
	}
	return 0;
}
