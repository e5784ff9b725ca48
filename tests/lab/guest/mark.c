/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mark DIRECTORY NAME [VALUE] - sets an extended attribute, or prints it without VALUE. The exit
 * status is 0 or the system call's errno.
 */
#include "lib.h"
#include <sys/xattr.h>

int main(int count, char **words)
{
	char value[256] = "";

	if (count < 3)
		return 2;
	if (count > 3 ? setxattr(words[1], words[2], words[3], strlen(words[3]), 0) < 0
		      : getxattr(words[1], words[2], value, sizeof(value) - 1) < 0) {
		int error = errno;

		perror(words[2]);
		return error;
	}
	puts(value);
	return 0;
}
