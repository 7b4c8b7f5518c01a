/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM leaf_policy

#if !defined(_TRACE_LEAF_POLICY_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LEAF_POLICY_H

#include <linux/fs.h>
#include <linux/leaf_policy.h>
#include <linux/mm.h>
#include <linux/tracepoint.h>

TRACE_DEFINE_ENUM(LEAF_RULE_OFF);
TRACE_DEFINE_ENUM(LEAF_RULE_THP_NEVER);
TRACE_DEFINE_ENUM(LEAF_RULE_NO_RANGE);
TRACE_DEFINE_ENUM(LEAF_RULE_TOO_WIDE);
TRACE_DEFINE_ENUM(LEAF_RULE_FILE_ORDER);
TRACE_DEFINE_ENUM(LEAF_RULE_NOT_CONGRUENT);
TRACE_DEFINE_ENUM(LEAF_RULE_NOT_HELD);
TRACE_DEFINE_ENUM(LEAF_RULE_NO_SPACE);
TRACE_DEFINE_ENUM(LEAF_RULE_WRITABLE);
TRACE_DEFINE_ENUM(LEAF_RULE_DEVICE);
TRACE_DEFINE_ENUM(LEAF_RULE_RESIDENT);
TRACE_DEFINE_ENUM(LEAF_RULE_MEMORY);
TRACE_DEFINE_ENUM(LEAF_RULE_NO_EVIDENCE);
TRACE_DEFINE_ENUM(LEAF_RULE_BUDGET);
TRACE_DEFINE_ENUM(LEAF_RULE_PAGE);
TRACE_DEFINE_ENUM(LEAF_RULE_WIDEST);
TRACE_DEFINE_ENUM(LEAF_RULE_NARROW);
TRACE_DEFINE_ENUM(LEAF_RULE_WINDOW);
TRACE_DEFINE_ENUM(LEAF_RULE_STREAM);
TRACE_DEFINE_ENUM(LEAF_RULE_SINGLE);
TRACE_DEFINE_ENUM(LEAF_RULE_LONELY);
TRACE_DEFINE_ENUM(LEAF_RULE_EVICTED);
TRACE_DEFINE_ENUM(LEAF_RULE_ADVICE);

#define show_leaf_rule(rule)					\
	__print_symbolic(rule,					\
		{ LEAF_RULE_OFF, "off" },			\
		{ LEAF_RULE_THP_NEVER, "thp-never" },		\
		{ LEAF_RULE_NO_RANGE, "no-range" },		\
		{ LEAF_RULE_TOO_WIDE, "too-wide" },		\
		{ LEAF_RULE_FILE_ORDER, "file-order" },		\
		{ LEAF_RULE_NOT_CONGRUENT, "not-congruent" },	\
		{ LEAF_RULE_NOT_HELD, "not-held" },		\
		{ LEAF_RULE_NO_SPACE, "no-space" },		\
		{ LEAF_RULE_WRITABLE, "writable" },		\
		{ LEAF_RULE_DEVICE, "device" },			\
		{ LEAF_RULE_RESIDENT, "resident" },		\
		{ LEAF_RULE_MEMORY, "memory" },			\
		{ LEAF_RULE_NO_EVIDENCE, "no-evidence" },	\
		{ LEAF_RULE_BUDGET, "budget" },			\
		{ LEAF_RULE_PAGE, "page" },			\
		{ LEAF_RULE_WIDEST, "widest" },			\
		{ LEAF_RULE_NARROW, "narrow" },			\
		{ LEAF_RULE_WINDOW, "window" },			\
		{ LEAF_RULE_STREAM, "stream" },			\
		{ LEAF_RULE_SINGLE, "single" },			\
		{ LEAF_RULE_LONELY, "lonely" },			\
		{ LEAF_RULE_EVICTED, "evicted" },		\
		{ LEAF_RULE_ADVICE, "advice" })

/* Where a mapping, or an ELF image for the sake of a segment, is to start */
TRACE_EVENT(leaf_align,

	TP_PROTO(const struct file *file, const struct leaf_align *align,
		 const struct leaf_align_answer *answer),

	TP_ARGS(file, align, answer),

	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(u64, offset)
		__field(u64, length)
		__field(u8, shift)
		__field(u8, rule)
		__field(u8, widest)
	),

	TP_fast_assign(
		const struct inode *inode = file->f_mapping->host;

		__entry->dev = inode->i_sb->s_dev;
		__entry->ino = inode->i_ino;
		__entry->offset = align->offset;
		__entry->length = align->length;
		__entry->shift = answer->shift;
		__entry->rule = answer->rule;
		__entry->widest = answer->trace.tried[0].rule;
	),

	TP_printk("dev=%d:%d ino=%llu offset=0x%llx length=0x%llx shift=%u rule=%s widest=%s",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino,
		  __entry->offset, __entry->length, __entry->shift,
		  show_leaf_rule(__entry->rule),
		  show_leaf_rule(__entry->widest))
);

/*
 * What to read for a fault on text: the leaf that is to map it, the rule that
 * took it, and what became of the widest one.
 */
TRACE_EVENT(leaf_read,

	TP_PROTO(const struct vm_fault *vmf,
		 const struct leaf_read_answer *answer),

	TP_ARGS(vmf, answer),

	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(unsigned long, pgoff)
		__field(u64, offset)
		__field(u64, size)
		__field(u16, debt)
		__field(u16, lonely)
		__field(u8, order)
		__field(u8, shift)
		__field(u8, rule)
		__field(u8, widest)
		__field(u8, collapse)
	),

	TP_fast_assign(
		const struct inode *inode = vmf->vma->vm_file->f_mapping->host;

		__entry->dev = inode->i_sb->s_dev;
		__entry->ino = inode->i_ino;
		__entry->pgoff = vmf->pgoff;
		__entry->offset = answer->offset;
		__entry->size = answer->size;
		__entry->debt = answer->account.debt;
		__entry->lonely = answer->account.lonely;
		__entry->order = answer->order;
		__entry->shift = answer->leaf;
		__entry->rule = answer->rule;
		__entry->widest = answer->trace.tried[0].rule;
		__entry->collapse = answer->collapse;
	),

	TP_printk("dev=%d:%d ino=%llu pgoff=0x%lx offset=0x%llx size=0x%llx order=%u shift=%u rule=%s widest=%s collapse=%u debt=%u lonely=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino,
		  __entry->pgoff, __entry->offset, __entry->size,
		  __entry->order, __entry->shift,
		  show_leaf_rule(__entry->rule),
		  show_leaf_rule(__entry->widest), __entry->collapse,
		  __entry->debt, __entry->lonely)
);

/* What became of a collapse: 0, or why the block stays as it is */
TRACE_EVENT(leaf_collapse,

	TP_PROTO(const struct inode *inode, unsigned long start, int err),

	TP_ARGS(inode, start, err),

	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(unsigned long, start)
		__field(int, err)
	),

	TP_fast_assign(
		__entry->dev = inode->i_sb->s_dev;
		__entry->ino = inode->i_ino;
		__entry->start = start;
		__entry->err = err;
	),

	TP_printk("dev=%d:%d ino=%llu start=0x%lx err=%d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino,
		  __entry->start, __entry->err)
);

#endif /* _TRACE_LEAF_POLICY_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
