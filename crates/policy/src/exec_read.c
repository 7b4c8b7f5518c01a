// SPDX-License-Identifier: GPL-2.0-only
/* The rule for reads of the series reads, reachable by symbol from Rust. */
#include "exec_read.h"

void exec_read_export(const struct exec_read *read,
		      struct exec_read_answer *answer);

void exec_read_export(const struct exec_read *read,
		      struct exec_read_answer *answer)
{
	*answer = exec_read(read);
}
