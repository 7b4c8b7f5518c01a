/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel's header has that exec_read.h uses, outside the kernel. */
#ifndef _HOST_LINUX_TYPES_H
#define _HOST_LINUX_TYPES_H

#include <stdbool.h>

#endif
