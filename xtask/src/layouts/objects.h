/* Python objects: part of offsets.c. */

static void types(void)
{
    AT(object, refcount, PyObject, ob_refcnt);
    AT(object, type_, PyObject, ob_type);
    AT(object, items, PyVarObject, ob_size);
    VALUE(object, refcount_bits, SINCE(12) ? 32 : 64);
    if (SINCE(12))
        SOME(object, immortal_bit, 31);
    else
        NONE(object, immortal_bit);
    SIZE(object, PyObject);
    VALUE(object, gc_head, sizeof(PyGC_Head));
#define TYPE(field, member) AT(type_, field, PyTypeObject, member)
    TYPE(name, tp_name); TYPE(basicsize, tp_basicsize); TYPE(itemsize, tp_itemsize); TYPE(flags, tp_flags);
    TYPE(methods, tp_methods); TYPE(members, tp_members); TYPE(getset, tp_getset); TYPE(base, tp_base);
    TYPE(dict, tp_dict); TYPE(dictoffset, tp_dictoffset); TYPE(weaklistoffset, tp_weaklistoffset);
    TYPE(bases, tp_bases); TYPE(mro, tp_mro); TYPE(cache, tp_cache); TYPE(subclasses, tp_subclasses);
    TYPE(weaklist, tp_weaklist);
    SIZE(type_, PyTypeObject);
    AT(member_def, name, PyMemberDef, name);
    AT(member_def, kind, PyMemberDef, type);
    AT(member_def, offset, PyMemberDef, offset);
    AT(member_def, flags, PyMemberDef, flags);
    SIZE(member_def, PyMemberDef);
    AT(heap_type, name, PyHeapTypeObject, ht_name);
    AT(heap_type, slots, PyHeapTypeObject, ht_slots);
    AT(heap_type, qualname, PyHeapTypeObject, ht_qualname);
    AT(heap_type, cached_keys, PyHeapTypeObject, ht_cached_keys);
    SIZE(heap_type, PyHeapTypeObject);
#if SINCE(9)
    MAYBE(heap_type, module, PyHeapTypeObject, ht_module);
#else
    NONE(heap_type, module);
#endif
}

/* Include/internal/pycore_object.h: MANAGED_DICT_OFFSET, MANAGED_WEAKREF_OFFSET; 3.11: _PyObject_ValuesPointer. */
static void managed(void)
{
    if (SINCE(11)) SOME(managed, dict, 24); else NONE(managed, dict);
    if (SINCE(11) && !SINCE(12)) SOME(managed, values, 32); else NONE(managed, values);
    if (SINCE(12)) SOME(managed, weakrefs, 32); else NONE(managed, weakrefs);
    BOOL(managed, tagged, SINCE(12) && !SINCE(13));
    BOOL(managed, inline_values, SINCE(13));
}

static void dicts(void)
{
    AT(dict, used, PyDictObject, ma_used);
    AT(dict, keys, PyDictObject, ma_keys);
    AT(dict, values, PyDictObject, ma_values);
    SIZE(dict, PyDictObject);
#if SINCE(11)
    typedef struct _dictkeysobject keys;
    NONE(dict_keys, slots);
    MAYBE(dict_keys, log2_slots, keys, dk_log2_size);
    MAYBE(dict_keys, log2_index_bytes, keys, dk_log2_index_bytes);
    MAYBE(dict_keys, kind, keys, dk_kind);
    AT(dict_values, values, struct _dictvalues, values);
#else
    typedef struct keys_object keys;
    MAYBE(dict_keys, slots, keys, dk_size);
    NONE(dict_keys, log2_slots); NONE(dict_keys, log2_index_bytes); NONE(dict_keys, kind);
    VALUE(dict_values, values, 0);
#endif
    AT(dict_keys, refcount, keys, dk_refcnt);
    AT(dict_keys, usable, keys, dk_usable);
    AT(dict_keys, entries, keys, dk_nentries);
    AT(dict_keys, indices, keys, dk_indices);
    VALUE(dict_keys, general_entry, 24);
    VALUE(dict_keys, str_entry, SINCE(11) ? 16 : 24);
#if SINCE(13)
    MAYBE(dict_values, capacity, struct _dictvalues, capacity);
    MAYBE(dict_values, used, struct _dictvalues, size);
    MAYBE(dict_values, embedded, struct _dictvalues, embedded);
    MAYBE(dict_values, valid, struct _dictvalues, valid);
#else
    NONE(dict_values, capacity); NONE(dict_values, used); NONE(dict_values, embedded); NONE(dict_values, valid);
#endif
}

static void containers(void)
{
    AT(list, items, PyListObject, ob_item);
    AT(list, allocated, PyListObject, allocated);
    SIZE(list, PyListObject);
    AT(tuple, items, PyTupleObject, ob_item);
    AT(set, fill, PySetObject, fill);
    AT(set, used, PySetObject, used);
    AT(set, mask, PySetObject, mask);
    AT(set, table, PySetObject, table);
    AT(set, small_table, PySetObject, smalltable);
    AT(set, weaklist, PySetObject, weakreflist);
    VALUE(set, entry, sizeof(setentry));
    SIZE(set, PySetObject);
    AT(module, dict, PyModuleObject, md_dict);
    AT(module, state, PyModuleObject, md_state);
    AT(module, weaklist, PyModuleObject, md_weaklist);
    AT(module, name, PyModuleObject, md_name);
    SIZE(module, PyModuleObject);
    AT(weakref, object, PyWeakReference, wr_object);
    AT(weakref, callback, PyWeakReference, wr_callback);
    AT(weakref, next, PyWeakReference, wr_next);
    SIZE(weakref, PyWeakReference);
    AT(memory_view, managed_buffer, PyMemoryViewObject, mbuf);
    AT(memory_view, buffer, PyMemoryViewObject, view.buf);
    AT(memory_view, object, PyMemoryViewObject, view.obj);
    AT(memory_view, bytes, PyMemoryViewObject, view.len);
    AT(memory_view, managed_buffer_object, _PyManagedBufferObject, master.obj);
}

static void scalars(void)
{
    AT(str_, length, PyASCIIObject, length);
    AT(str_, hash, PyASCIIObject, hash);
    AT(str_, state, PyASCIIObject, state);
    STATE(interned); STATE(kind); STATE(compact); STATE(ascii);
    VALUE(str_, ascii_size, sizeof(PyASCIIObject));
    VALUE(str_, compact_size, sizeof(PyCompactUnicodeObject));
    AT(str_, utf8_length, PyCompactUnicodeObject, utf8_length);
    AT(str_, utf8, PyCompactUnicodeObject, utf8);
    AT(str_, data, PyUnicodeObject, data);
    SIZE(str_, PyUnicodeObject);
    AT(bytes, data, PyBytesObject, ob_sval);
    VALUE(bytes, size, offsetof(PyBytesObject, ob_sval) + 1);
    AT(byte_array, allocated, PyByteArrayObject, ob_alloc);
    AT(byte_array, buffer, PyByteArrayObject, ob_bytes);
    AT(byte_array, start, PyByteArrayObject, ob_start);
    AT(byte_array, exports, PyByteArrayObject, ob_exports);
#if SINCE(15)
    MAYBE(byte_array, object, PyByteArrayObject, ob_bytes_object);
#else
    NONE(byte_array, object);
#endif
    SIZE(byte_array, PyByteArrayObject);
#if SINCE(12)
    MAYBE(int, tag, PyLongObject, long_value.lv_tag);
    AT(int, digits, PyLongObject, long_value.ob_digit);
#else
    NONE(int, tag);
    AT(int, digits, PyLongObject, ob_digit);
#endif
    VALUE(int, tag_shift, SINCE(12) ? 3 : 0);
    VALUE(int, digit_bits, PyLong_SHIFT);
    AT(float, value, PyFloatObject, ob_fval);
}

#define FUNCTION(name, member) OWNS(owned, function, name, PyFunctionObject, member)
static void functions(void)
{
    LIST(owned, function);
    FUNCTION("__globals__", func_globals); FUNCTION("__name__", func_name); FUNCTION("__qualname__", func_qualname);
    FUNCTION("__code__", func_code); FUNCTION("__defaults__", func_defaults);
    FUNCTION("__kwdefaults__", func_kwdefaults); FUNCTION("__doc__", func_doc); FUNCTION("__dict__", func_dict);
    FUNCTION("__closure__", func_closure); FUNCTION("__module__", func_module);
    FUNCTION("__annotations__", func_annotations);
#if SINCE(10)
    FUNCTION("__builtins__", func_builtins);
#endif
#if SINCE(12)
    FUNCTION("__type_params__", func_typeparams);
#endif
#if SINCE(14)
    FUNCTION("__annotate__", func_annotate);
#endif
    LIST(owned, method);
    OWNS(owned, method, "__func__", PyMethodObject, im_func);
    OWNS(owned, method, "__self__", PyMethodObject, im_self);
    LIST(owned, builtin);
    OWNS(owned, builtin, "__self__", PyCFunctionObject, m_self);
    OWNS(owned, builtin, "__module__", PyCFunctionObject, m_module);
    LIST(owned, cell);
    OWNS(owned, cell, "cell_contents", PyCellObject, ob_ref);
}

static void small_objects(void)
{
    LIST(owned, slice);
    OWNS(owned, slice, "start", PySliceObject, start);
    OWNS(owned, slice, "stop", PySliceObject, stop);
    OWNS(owned, slice, "step", PySliceObject, step);
    LIST(owned, property);
    OWNS(owned, property, "fget", property_object, prop_get);
    OWNS(owned, property, "fset", property_object, prop_set);
    OWNS(owned, property, "fdel", property_object, prop_del);
    OWNS(owned, property, "__doc__", property_object, prop_doc);
#if SINCE(13)
    OWNS(owned, property, "__name__", property_object, prop_name);
#endif
    LIST(owned, static_method);
    OWNS(owned, static_method, "__func__", wrapping_method, callable);
    OWNS(owned, static_method, "__dict__", wrapping_method, dict);
    LIST(owned, class_method);
    OWNS(owned, class_method, "__func__", wrapping_method, callable);
    OWNS(owned, class_method, "__dict__", wrapping_method, dict);
    LIST(owned, descriptor);
    OWNS(owned, descriptor, "__objclass__", PyDescrObject, d_type);
    OWNS(owned, descriptor, "__name__", PyDescrObject, d_name);
    OWNS(owned, descriptor, "__qualname__", PyDescrObject, d_qualname);
    LIST(owned, traceback);
    OWNS(owned, traceback, "tb_next", PyTracebackObject, tb_next);
    OWNS(owned, traceback, "tb_frame", PyTracebackObject, tb_frame);
    LIST(owned, exception);
    OWNS(owned, exception, "__dict__", PyBaseExceptionObject, dict);
    OWNS(owned, exception, "args", PyBaseExceptionObject, args);
#if SINCE(11)
    OWNS(owned, exception, "__notes__", PyBaseExceptionObject, notes);
#endif
    OWNS(owned, exception, "__traceback__", PyBaseExceptionObject, traceback);
    OWNS(owned, exception, "__context__", PyBaseExceptionObject, context);
    OWNS(owned, exception, "__cause__", PyBaseExceptionObject, cause);
    LIST(owned, memory_view);
    OWNS(owned, memory_view, "managed_buffer", PyMemoryViewObject, mbuf);
    OWNS(owned, memory_view, "obj", PyMemoryViewObject, view.obj);
}
