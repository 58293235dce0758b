/* A program with an interpreter in it, or, with -DIDLE, with the library only. */
#include <Python.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
#ifdef IDLE
    /* Something of the library must be used, or it is not loaded. */
    printf("{\"version\": \"%.6s\"}\n", Py_GetVersion());
    fflush(stdout);
    getchar();
    return 0;
#else
    Py_Initialize();
    /* In a program at a fixed address these make copies of the library's objects. */
    if (!PyObject_IsInstance((PyObject *)&PyType_Type, (PyObject *)&PyType_Type) || Py_None == Py_True)
        return 1;
    return PyRun_SimpleString(
        "import sys\n"
        "def embedded():\n"
        "    print('{\"none\": %d}' % id(None), flush=True) or sys.stdin.read()\n"
        "embedded()\n");
#endif
}
