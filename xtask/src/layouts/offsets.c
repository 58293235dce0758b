/* Prints where everything is, for the headers it is compiled against: one line per field,
 *   GROUP FIELD VALUE          VALUE as Rust would write it
 *   GROUP FIELD +NAME OFFSET   one more entry of a list of owned references
 *   ! GROUP FIELD POSITION     the debug offsets tell this field at that byte (a leading ? : the field is optional)
 * Structures that no installed header has are written down here, with the file they are from.
 */
#define Py_BUILD_CORE 1
#define Py_BUILD_CORE_MODULE 1
#include "Python.h"
#include "structmember.h"
#include "frameobject.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SINCE(minor) (PY_VERSION_HEX >= (0x03000000 | (minor) << 16))

#if SINCE(9)
#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#else
#include "internal/pycore_pymem.h"
#include "internal/pycore_pystate.h"
#endif
#if SINCE(10)
#include "internal/pycore_moduleobject.h"
#endif
#if SINCE(11)
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#endif
#if SINCE(12)
#include "internal/pycore_obmalloc.h"
#include "internal/pycore_typeobject.h"
#endif
#if SINCE(14)
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_genobject.h"
#endif

#define VALUE(group, field, value) printf(#group " " #field " %lld\n", (long long)(value))
#define SOME(group, field, value) printf(#group " " #field " Some(%lld)\n", (long long)(value))
#define NONE(group, field) printf(#group " " #field " None\n")
#define BOOL(group, field, value) printf(#group " " #field " %s\n", (value) ? "true" : "false")
#define AT(group, field, type, member) VALUE(group, field, offsetof(type, member))
#define MAYBE(group, field, type, member) SOME(group, field, offsetof(type, member))
#define SIZE(group, type) VALUE(group, size, sizeof(type))
#define LIST(group, field) printf(#group " " #field " []\n")
#define OWNS(group, field, name, type, member) \
    printf(#group " " #field " +" name " %lld\n", (long long)offsetof(type, member))
#define INTERP(member) OWNS(interpreter, owned, #member, PyInterpreterState, member)
#define TELLS(group, field, member) printf("! " #group " " #field " %lld\n", (long long)offsetof(_Py_DebugOffsets, member))
#define TELLS_SOME(group, field, member) printf("! " #group " ?" #field " %lld\n", (long long)offsetof(_Py_DebugOffsets, member))

/* Position of a bit field in the 32-bit state word of a str. */
#define STATE(field) do { \
        PyASCIIObject s; unsigned int word; int shift = 0, width = 0; \
        memset(&s, 0, sizeof s); \
        s.state.field = ~0u; \
        memcpy(&word, (char *)&s + offsetof(PyASCIIObject, state), sizeof word); \
        while (!(word >> shift & 1)) shift++; \
        while (shift + width < 32 && word >> (shift + width) & 1) width++; \
        printf("str_ " #field " Bits { shift: %d, width: %d }\n", shift, width); \
    } while (0)

#if !SINCE(10)
/* Objects/moduleobject.c */
typedef struct { PyObject_HEAD PyObject *md_dict; struct PyModuleDef *md_def; void *md_state;
    PyObject *md_weaklist; PyObject *md_name; } PyModuleObject;
#endif
#if !SINCE(11)
/* Objects/dict-common.h */
struct keys_object { Py_ssize_t dk_refcnt; Py_ssize_t dk_size; void *dk_lookup; Py_ssize_t dk_usable;
    Py_ssize_t dk_nentries; char dk_indices[]; };
#endif
/* Objects/descrobject.c (propertyobject), Objects/funcobject.c (classmethod, staticmethod) */
typedef struct { PyObject_HEAD PyObject *prop_get; PyObject *prop_set; PyObject *prop_del; PyObject *prop_doc;
    PyObject *prop_name; } property_object;
typedef struct { PyObject_HEAD PyObject *callable; PyObject *dict; } wrapping_method;

#include "state.h"
#include "objects.h"

/* Include/internal/pycore_debug_offsets.h (3.14 on), pycore_runtime.h (3.13). */
static void told(void)
{
#if SINCE(13)
    TELLS(runtime, interpreters_head, runtime_state.interpreters_head);
    TELLS(runtime, size, runtime_state.size);
    TELLS(interpreter, size, interpreter_state.size);
    TELLS(interpreter, id, interpreter_state.id);
    TELLS(interpreter, next, interpreter_state.next);
    TELLS(interpreter, threads_head, interpreter_state.threads_head);
    TELLS_SOME(interpreter, gc, interpreter_state.gc);
    TELLS(interpreter, modules, interpreter_state.imports_modules);
    TELLS(interpreter, sysdict, interpreter_state.sysdict);
    TELLS(interpreter, builtins, interpreter_state.builtins);
    TELLS_SOME(interpreter, gil, interpreter_state.ceval_gil);
    TELLS(gc, collecting, gc.collecting);
    TELLS(thread, size, thread_state.size);
    TELLS(thread, next, thread_state.next);
    TELLS(thread, interpreter, thread_state.interp);
    TELLS_SOME(thread, current_frame, thread_state.current_frame);
    TELLS(thread, thread_id, thread_state.thread_id);
    TELLS_SOME(thread, native_thread_id, thread_state.native_thread_id);
    TELLS(frame, previous, interpreter_frame.previous);
    TELLS(frame, executable, interpreter_frame.executable);
    TELLS(frame, instruction, interpreter_frame.instr_ptr);
    TELLS(frame, localsplus, interpreter_frame.localsplus);
    TELLS(frame, owner, interpreter_frame.owner);
    TELLS(code, filename, code_object.filename);
    TELLS(code, name, code_object.name);
    TELLS_SOME(code, qualname, code_object.qualname);
    TELLS(code, line_table, code_object.linetable);
    TELLS(code, first_line, code_object.firstlineno);
    TELLS_SOME(code, localsplus_names, code_object.localsplusnames);
    TELLS_SOME(code, localsplus_kinds, code_object.localspluskinds);
    TELLS_SOME(code, instructions, code_object.co_code_adaptive);
    TELLS(type_, name, type_object.tp_name);
    TELLS(type_, flags, type_object.tp_flags);
    TELLS(type_, size, type_object.size);
    TELLS(tuple, items, tuple_object.ob_item);
#if SINCE(14)
    TELLS_SOME(frame, stackpointer, interpreter_frame.stackpointer);
    TELLS(list, items, list_object.ob_item);
    TELLS(set, used, set_object.used);
    TELLS(set, table, set_object.table);
    TELLS(set, mask, set_object.mask);
    TELLS(dict, keys, dict_object.ma_keys);
    TELLS(dict, values, dict_object.ma_values);
    TELLS(float, value, float_object.ob_fval);
    TELLS_SOME(int, tag, long_object.lv_tag);
    TELLS(int, digits, long_object.ob_digit);
    TELLS(bytes, data, bytes_object.ob_sval);
    TELLS(str_, state, unicode_object.state);
    TELLS(str_, length, unicode_object.length);
    TELLS(str_, ascii_size, unicode_object.asciiobject_size);
    TELLS_SOME(generator, inline_frame, gen_object.gi_iframe);
    TELLS_SOME(generator, state, gen_object.gi_frame_state);
#endif
#if SINCE(15)
    TELLS(type_, basicsize, type_object.tp_basicsize);
    TELLS(type_, dictoffset, type_object.tp_dictoffset);
    TELLS(heap_type, size, heap_type_object.size);
    TELLS(heap_type, cached_keys, heap_type_object.ht_cached_keys);
    TELLS(str_, compact_size, unicode_object.compactunicodeobject_size);
#endif
#endif
}

int main(void)
{
    printf("version %d %d\n", PY_MINOR_VERSION, PY_MICRO_VERSION);
    state(); interpreter_owned(); collector(); static_types(); thread(); frames(); interpreter_frame();
    generator(); code(); types(); managed(); dicts(); containers(); scalars(); functions(); small_objects();
    told();
    return 0;
}
