/* The interpreter's own structures: part of offsets.c. */

static void state(void)
{
    AT(runtime, interpreters_head, _PyRuntimeState, interpreters.head);
    AT(runtime, interpreters_main, _PyRuntimeState, interpreters.main);
    SIZE(runtime, _PyRuntimeState);
#if SINCE(9)
    NONE(runtime, gc);
    MAYBE(interpreter, gc, PyInterpreterState, gc);
#else
    MAYBE(runtime, gc, _PyRuntimeState, gc);
    NONE(interpreter, gc);
#endif
#if SINCE(12)
    NONE(runtime, gil);
    MAYBE(interpreter, gil, PyInterpreterState, ceval.gil);
#else
    MAYBE(runtime, gil, _PyRuntimeState, ceval.gil);
    NONE(interpreter, gil);
#endif
    AT(gil, locked, struct _gil_runtime_state, locked);
    AT(gil, last_holder, struct _gil_runtime_state, last_holder);
    AT(interpreter, next, PyInterpreterState, next);
    AT(interpreter, id, PyInterpreterState, id);
    AT(interpreter, sysdict, PyInterpreterState, sysdict);
    AT(interpreter, builtins, PyInterpreterState, builtins);
    SIZE(interpreter, PyInterpreterState);
#if SINCE(11)
    AT(interpreter, threads_head, PyInterpreterState, threads.head);
#else
    AT(interpreter, threads_head, PyInterpreterState, tstate_head);
#endif
#if SINCE(12)
    AT(interpreter, modules, PyInterpreterState, imports.modules);
    MAYBE(interpreter, interned, PyInterpreterState, cached_objects.interned_strings);
#else
    AT(interpreter, modules, PyInterpreterState, modules);
    NONE(interpreter, interned);
#endif
#if SINCE(9) && !SINCE(11)
    MAYBE(interpreter, small_ints, PyInterpreterState, small_ints);
    VALUE(interpreter, small_ints_count, sizeof(((PyInterpreterState *)0)->small_ints) / sizeof(void *));
#else
    NONE(interpreter, small_ints);
    VALUE(interpreter, small_ints_count, 0);
#endif
}

static void interpreter_owned(void)
{
    LIST(interpreter, owned);
#if SINCE(12)
    INTERP(imports.modules_by_index); INTERP(imports.importlib); INTERP(imports.import_func);
    INTERP(sysdict_copy);
    INTERP(cached_objects.objreduce); INTERP(cached_objects.generic_type);
    INTERP(cached_objects.typevar_type); INTERP(cached_objects.typevartuple_type);
    INTERP(cached_objects.paramspec_type); INTERP(cached_objects.paramspecargs_type);
    INTERP(cached_objects.paramspeckwargs_type);
#else
    INTERP(modules_by_index); INTERP(importlib); INTERP(import_func);
#endif
#if SINCE(15)
    INTERP(cached_objects.dict_descriptor); INTERP(cached_objects.weakref_descriptor);
#endif
#if SINCE(13)
    INTERP(codecs.search_path); INTERP(codecs.search_cache); INTERP(codecs.error_registry);
#else
    INTERP(codec_search_path); INTERP(codec_search_cache); INTERP(codec_error_registry);
#endif
    INTERP(dict); INTERP(builtins_copy);
    INTERP(before_forkers); INTERP(after_forkers_parent); INTERP(after_forkers_child);
    INTERP(audit_hooks);
    INTERP(warnings.filters); INTERP(warnings.once_registry); INTERP(warnings.default_action);
#if SINCE(14)
    INTERP(warnings.context);
    INTERP(atexit.callbacks);
    for (int i = 0; i < NUM_COMMON_CONSTANTS; i++)
        printf("interpreter owned +common_consts[%d] %lld\n", i,
               (long long)(offsetof(PyInterpreterState, common_consts) + i * sizeof(PyObject *)));
#elif !SINCE(10)
    INTERP(pyexitmodule);
#endif
}

static void collector(void)
{
    typedef struct _gc_runtime_state gc;
    AT(gc, generations, gc, generations);
    AT(gc, permanent, gc, permanent_generation);
    VALUE(gc, stride, sizeof(struct gc_generation));
    AT(gc, collecting, gc, collecting);
    AT(gc, garbage, gc, garbage);
    AT(gc, callbacks, gc, callbacks);
#if SINCE(13)
    MAYBE(obmalloc, state, PyInterpreterState, obmalloc);
    BOOL(obmalloc, pointer, 1);
#elif SINCE(12)
    MAYBE(obmalloc, state, PyInterpreterState, obmalloc);
    BOOL(obmalloc, pointer, 0);
#else
    NONE(obmalloc, state);
    BOOL(obmalloc, pointer, 0);
#endif
#if SINCE(12)
    MAYBE(obmalloc, arenas, struct _obmalloc_state, mgmt.arenas);
    MAYBE(obmalloc, max_arenas, struct _obmalloc_state, mgmt.maxarenas);
    VALUE(obmalloc, arena_size, ARENA_SIZE);
    VALUE(obmalloc, pool_size, POOL_SIZE);
    VALUE(obmalloc, pool_header, sizeof(struct pool_header));
    VALUE(obmalloc, alignment, ALIGNMENT);
#else
    /* Objects/obmalloc.c */
    NONE(obmalloc, arenas);
    NONE(obmalloc, max_arenas);
    VALUE(obmalloc, arena_size, SINCE(10) ? 1 << 20 : 256 << 10);
    VALUE(obmalloc, pool_size, SINCE(10) ? 16 << 10 : 4 << 10);
    VALUE(obmalloc, pool_header, 48);
    VALUE(obmalloc, alignment, 16);
#endif
}

static void static_types(void)
{
#if SINCE(13)
    typedef managed_static_type_state entry;
    MAYBE(static_types, builtins, PyInterpreterState, types.builtins.initialized);
    MAYBE(static_types, builtins_count, PyInterpreterState, types.builtins.num_initialized);
    VALUE(static_types, builtins_max, _Py_MAX_MANAGED_STATIC_BUILTIN_TYPES);
    MAYBE(static_types, extensions, PyInterpreterState, types.for_extensions.initialized);
    MAYBE(static_types, extensions_count, PyInterpreterState, types.for_extensions.num_initialized);
    VALUE(static_types, extensions_max, _Py_MAX_MANAGED_STATIC_EXT_TYPES);
#elif SINCE(12)
    typedef static_builtin_state entry;
    MAYBE(static_types, builtins, PyInterpreterState, types.builtins);
    MAYBE(static_types, builtins_count, PyInterpreterState, types.num_builtins_initialized);
    VALUE(static_types, builtins_max, _Py_MAX_STATIC_BUILTIN_TYPES);
#else
    NONE(static_types, builtins);
    NONE(static_types, builtins_count);
    VALUE(static_types, builtins_max, 0);
#endif
#if !SINCE(13)
    NONE(static_types, extensions);
    NONE(static_types, extensions_count);
    VALUE(static_types, extensions_max, 0);
#endif
#if SINCE(12)
    AT(static_types, type_, entry, type);
    AT(static_types, dict, entry, tp_dict);
    AT(static_types, subclasses, entry, tp_subclasses);
    AT(static_types, weaklist, entry, tp_weaklist);
    SIZE(static_types, entry);
#else
    VALUE(static_types, type_, 0);
    VALUE(static_types, dict, 0);
    VALUE(static_types, subclasses, 0);
    VALUE(static_types, weaklist, 0);
    VALUE(static_types, size, 0);
#endif
}

static void thread(void)
{
    AT(thread, next, PyThreadState, next);
    AT(thread, interpreter, PyThreadState, interp);
    AT(thread, thread_id, PyThreadState, thread_id);
    AT(thread, exc_info, PyThreadState, exc_info);
    SIZE(thread, PyThreadState);
#if SINCE(13)
    NONE(thread, frame); NONE(thread, cframe); VALUE(thread, cframe_current, 0);
    MAYBE(thread, current_frame, PyThreadState, current_frame);
#elif SINCE(11)
    NONE(thread, frame);
    MAYBE(thread, cframe, PyThreadState, cframe);
    AT(thread, cframe_current, _PyCFrame, current_frame);
    NONE(thread, current_frame);
#else
    MAYBE(thread, frame, PyThreadState, frame);
    NONE(thread, cframe); VALUE(thread, cframe_current, 0);
    NONE(thread, current_frame);
#endif
#if SINCE(11)
    MAYBE(thread, native_thread_id, PyThreadState, native_thread_id);
#else
    NONE(thread, native_thread_id);
#endif
    LIST(thread, owned);
#define OWN(member) OWNS(thread, owned, #member, PyThreadState, member)
    OWN(dict); OWN(async_exc); OWN(c_profileobj); OWN(c_traceobj); OWN(context);
    OWN(async_gen_firstiter); OWN(async_gen_finalizer);
#if SINCE(12)
    OWN(current_exception);
#else
    OWN(curexc_type); OWN(curexc_value); OWN(curexc_traceback);
#endif
#undef OWN
    AT(exception_item, previous, _PyErr_StackItem, previous_item);
    LIST(exception_item, owned);
    OWNS(exception_item, owned, "exc_value", _PyErr_StackItem, exc_value);
#if !SINCE(11)
    OWNS(exception_item, owned, "exc_type", _PyErr_StackItem, exc_type);
    OWNS(exception_item, owned, "exc_traceback", _PyErr_StackItem, exc_traceback);
#endif
}

#define OWN(member) OWNS(frame_object, owned, #member, PyFrameObject, member)
static void frames(void)
{
    AT(frame_object, back, PyFrameObject, f_back);
    LIST(frame_object, owned);
    OWN(f_back); OWN(f_trace);
#if SINCE(11)
    MAYBE(frame_object, frame, PyFrameObject, f_frame);
    NONE(frame_object, code); NONE(frame_object, last_instruction); NONE(frame_object, localsplus);
    NONE(frame_object, valuestack); NONE(frame_object, stacktop); NONE(frame_object, stack_depth);
    VALUE(frame_object, last_instruction_unit, 2);
    VALUE(frame_object, size, offsetof(PyFrameObject, _f_frame_data));
#if SINCE(13)
    OWN(f_extra_locals); OWN(f_locals_cache);
#endif
#if SINCE(14)
    OWN(f_overwritten_fast_locals);
#endif
#else
    OWN(f_code); OWN(f_builtins); OWN(f_globals); OWN(f_locals);
    NONE(frame_object, frame);
    MAYBE(frame_object, code, PyFrameObject, f_code);
    MAYBE(frame_object, last_instruction, PyFrameObject, f_lasti);
    MAYBE(frame_object, localsplus, PyFrameObject, f_localsplus);
    MAYBE(frame_object, valuestack, PyFrameObject, f_valuestack);
#if SINCE(10)
    NONE(frame_object, stacktop);
    MAYBE(frame_object, stack_depth, PyFrameObject, f_stackdepth);
#else
    MAYBE(frame_object, stacktop, PyFrameObject, f_stacktop);
    NONE(frame_object, stack_depth);
#endif
    VALUE(frame_object, last_instruction_unit, SINCE(10) ? 2 : 1);
    SIZE(frame_object, PyFrameObject);
#endif
}
#undef OWN

static void interpreter_frame(void)
{
#if SINCE(11)
    typedef _PyInterpreterFrame frame;
    AT(frame, previous, frame, previous);
    AT(frame, localsplus, frame, localsplus);
    AT(frame, owner, frame, owner);
    AT(frame, frame_object, frame, frame_obj);
    AT(frame, globals, frame, f_globals);
    AT(frame, builtins, frame, f_builtins);
    AT(frame, locals, frame, f_locals);
    VALUE(frame, size, offsetof(frame, localsplus));
#if SINCE(12)
    AT(frame, function, frame, f_funcobj);
#else
    AT(frame, function, frame, f_func);
#endif
#if SINCE(13)
    AT(frame, executable, frame, f_executable);
    AT(frame, instruction, frame, instr_ptr);
#else
    AT(frame, executable, frame, f_code);
    AT(frame, instruction, frame, prev_instr);
#endif
    BOOL(frame, instruction_is_last, !SINCE(13));
    BOOL(frame, tagged, SINCE(14));
#if SINCE(14)
    NONE(frame, stacktop);
    MAYBE(frame, stackpointer, frame, stackpointer);
#else
    MAYBE(frame, stacktop, frame, stacktop);
    NONE(frame, stackpointer);
#endif
#else
    VALUE(frame, previous, 0); VALUE(frame, executable, 0); VALUE(frame, instruction, 0);
    VALUE(frame, localsplus, 0); VALUE(frame, owner, 0); VALUE(frame, frame_object, 0);
    VALUE(frame, function, 0); VALUE(frame, globals, 0); VALUE(frame, builtins, 0); VALUE(frame, locals, 0);
    VALUE(frame, size, 0);
    BOOL(frame, instruction_is_last, 1); BOOL(frame, tagged, 0);
    NONE(frame, stacktop); NONE(frame, stackpointer);
#endif
}

#define OWN(member) OWNS(generator, owned, #member, PyGenObject, member)
static void generator(void)
{
    AT(generator, exc_state, PyGenObject, gi_exc_state);
    AT(generator, weaklist, PyGenObject, gi_weakreflist);
    LIST(generator, owned);
    OWN(gi_name); OWN(gi_qualname);
    OWNS(generator, owned, "gi_exc_state", PyGenObject, gi_exc_state.exc_value);
#if SINCE(11)
    NONE(generator, frame);
    MAYBE(generator, inline_frame, PyGenObject, gi_iframe);
    MAYBE(generator, state, PyGenObject, gi_frame_state);
    VALUE(generator, cleared, FRAME_CLEARED);
    VALUE(generator, executing, FRAME_EXECUTING);
    VALUE(generator, size, offsetof(PyGenObject, gi_iframe));
    OWNS(generator, owned, "origin_or_finalizer", PyCoroObject, cr_origin_or_finalizer);
#if !SINCE(12)
    OWN(gi_code);
#endif
#else
    MAYBE(generator, frame, PyGenObject, gi_frame);
    NONE(generator, inline_frame); NONE(generator, state);
    VALUE(generator, cleared, 0); VALUE(generator, executing, 0);
    SIZE(generator, PyGenObject);
    OWN(gi_frame); OWN(gi_code);
    OWNS(generator, owned, "gi_exc_type", PyGenObject, gi_exc_state.exc_type);
    OWNS(generator, owned, "gi_exc_traceback", PyGenObject, gi_exc_state.exc_traceback);
#endif
}
#undef OWN

#define OWN(member) OWNS(owned, code, #member, PyCodeObject, member)
static void code(void)
{
    AT(code, filename, PyCodeObject, co_filename);
    AT(code, name, PyCodeObject, co_name);
    AT(code, first_line, PyCodeObject, co_firstlineno);
    AT(code, local_count, PyCodeObject, co_nlocals);
    AT(code, stack_size, PyCodeObject, co_stacksize);
    AT(code, weaklist, PyCodeObject, co_weakreflist);
    LIST(owned, code);
    OWN(co_consts); OWN(co_names); OWN(co_filename); OWN(co_name);
#if SINCE(10)
    AT(code, line_table, PyCodeObject, co_linetable);
    OWN(co_linetable);
#else
    AT(code, line_table, PyCodeObject, co_lnotab);
    OWN(co_lnotab);
#endif
#if SINCE(11)
    MAYBE(code, qualname, PyCodeObject, co_qualname);
    MAYBE(code, localsplus_names, PyCodeObject, co_localsplusnames);
    MAYBE(code, localsplus_kinds, PyCodeObject, co_localspluskinds);
    MAYBE(code, localsplus_count, PyCodeObject, co_nlocalsplus);
    NONE(code, varnames); NONE(code, cellvars); NONE(code, freevars);
    MAYBE(code, instructions, PyCodeObject, co_code_adaptive);
    VALUE(code, size, offsetof(PyCodeObject, co_code_adaptive));
    OWN(co_qualname); OWN(co_localsplusnames); OWN(co_localspluskinds); OWN(co_exceptiontable);
#if !SINCE(12)
    OWN(_co_code);
#endif
#else
    NONE(code, qualname); NONE(code, localsplus_names); NONE(code, localsplus_kinds);
    NONE(code, localsplus_count);
    MAYBE(code, varnames, PyCodeObject, co_varnames);
    MAYBE(code, cellvars, PyCodeObject, co_cellvars);
    MAYBE(code, freevars, PyCodeObject, co_freevars);
    NONE(code, instructions);
    SIZE(code, PyCodeObject);
    OWN(co_code); OWN(co_varnames); OWN(co_cellvars); OWN(co_freevars);
#endif
}
#undef OWN
