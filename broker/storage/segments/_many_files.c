/* Does to many files what takes a call of the system for each, and lets go of the interpreter once
 * for all of them. Used by `broker.storage.segments.many_files`, which does the same where this is not
 * compiled.
 *
 * Nothing is made or freed while the interpreter is let go of: what is to be done is laid down in
 * `Work` before, and what came of it is read from there afterwards.
 */

#define _GNU_SOURCE /* statx, which glibc has had since 2.28, under this one name */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GONE -1 /* another file has its name, or none */

typedef struct {
    int fd;
    const char *path;  /* to sync: its name */
    const char *bytes; /* to write: what, how much, and where */
    Py_ssize_t size;
    off_t at;
    int fault; /* an errno, or GONE; 0 if all is well */
} Work;

static int
sync_one(int fd, const char *path)
{
    struct statx named, held;
    while (fdatasync(fd) < 0)
        if (errno != EINTR)
            return errno;
    if (statx(AT_FDCWD, path, 0, STATX_INO, &named) < 0)
        return errno == ENOENT ? GONE : errno;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &held) < 0)
        return errno;
    int same = named.stx_ino == held.stx_ino && named.stx_dev_major == held.stx_dev_major
               && named.stx_dev_minor == held.stx_dev_minor;
    return same ? 0 : GONE;
}

static int
write_one(int fd, const char *bytes, Py_ssize_t size, off_t at)
{
    while (size > 0) {
        ssize_t written = pwrite(fd, bytes, size, at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : EIO;
        bytes += written;
        size -= written;
        at += written;
    }
    return 0;
}

/* Room for as many as `list` has; NULL with an exception if it is none, or there is none. */
static Work *
room_for(PyObject *list, const char *usage)
{
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, usage);
        return NULL;
    }
    Work *works = calloc((size_t)PyList_Size(list) + 1, sizeof(Work));
    if (!works)
        PyErr_NoMemory();
    return works;
}

/* A list of the faults. */
static PyObject *
faults_of(const Work *works, Py_ssize_t count)
{
    PyObject *faults = PyList_New(count);
    for (Py_ssize_t each = 0; faults && each < count; each++) {
        PyObject *fault = PyLong_FromLong(works[each].fault);
        if (!fault || PyList_SetItem(faults, each, fault) < 0)
            Py_CLEAR(faults);
    }
    return faults;
}

static PyObject *
sync_all(PyObject *Py_UNUSED(module), PyObject *files)
{
    Work *works = room_for(files, "sync(files: list)");
    if (!works)
        return NULL;
    const Py_ssize_t count = PyList_Size(files);
    PyObject *faults = NULL;
    /* The caller keeps the paths, and nobody else has its list. */
    for (Py_ssize_t each = 0; each < count; each++) {
        PyObject *file = PyList_GetItem(files, each);
        if (!file || !PyArg_ParseTuple(file, "iy", &works[each].fd, &works[each].path))
            goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Work *work = works; work < works + count; work++)
        work->fault = sync_one(work->fd, work->path);
    Py_END_ALLOW_THREADS
    faults = faults_of(works, count);
done:
    free(works);
    return faults;
}

static PyObject *
write_all(PyObject *Py_UNUSED(module), PyObject *pieces)
{
    Work *works = room_for(pieces, "write(pieces: list)");
    if (!works)
        return NULL;
    const Py_ssize_t count = PyList_Size(pieces);
    PyObject *faults = NULL;
    for (Py_ssize_t each = 0; each < count; each++) {
        PyObject *piece = PyList_GetItem(pieces, each);
        Work *work = &works[each];
        long long at = 0;
        if (!piece || !PyArg_ParseTuple(piece, "iy#L", &work->fd, &work->bytes, &work->size, &at))
            goto done;
        work->at = at;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Work *work = works; work < works + count; work++)
        work->fault = write_one(work->fd, work->bytes, work->size, work->at);
    Py_END_ALLOW_THREADS
    faults = faults_of(works, count);
done:
    free(works);
    return faults;
}

static PyMethodDef methods[] = {
    {"sync", sync_all, METH_O,
     "sync(files): for each descriptor and path 0, an errno, or -1 if it has its name no more."},
    {"write", write_all, METH_O,
     "write(pieces): for each descriptor, bytes and place 0, or an errno."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "broker.storage.segments._many_files",
    .m_doc = "Does to many files what takes a call of the system for each.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__many_files(void)
{
    return PyModuleDef_Init(&definition);
}
