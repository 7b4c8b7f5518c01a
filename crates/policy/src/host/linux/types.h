/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for the kernel's <linux/types.h> on the host: exec_read.h needs bool of it. */
#ifndef _HOST_LINUX_TYPES_H
#define _HOST_LINUX_TYPES_H

#include <stdbool.h>

#endif
