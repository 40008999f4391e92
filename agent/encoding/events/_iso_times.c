/* Parses times in the usual form, `2026-11-20T14:37:00.123Z`, to milliseconds since 1970.
 *
 * Accepts text of 20 to 35 characters: a date, T or a space, a time of day, optionally a fraction
 * of up to nine digits, and Z or a zone as +hh:mm. Returns nothing for any other text, which the
 * caller, `agent.encoding.events.times`, parses with `datetime`. Every character is checked, and every
 * position is compared with the end.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define LEAST 20 /* 2026-11-20T14:37:00Z */
#define MOST 35  /* 2026-11-20T14:37:00.123456789+00:00 */

/* A number of exactly that many digits; -1 if another character is among them. */
static inline int
digits(const char *at, int count)
{
    int number = 0;
    for (; count > 0; count--, at++) {
        if (*at < '0' || *at > '9')
            return -1;
        number = 10 * number + (*at - '0');
    }
    return number;
}

static inline int
days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (leap && month == 2);
}

/* Days since 1970 of an existing day. Years begin with March, so that a leap day comes last. */
static inline int64_t
days_since_1970(int year, int month, int day)
{
    int64_t from_march = month > 2 ? year : year - 1;
    int64_t before = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return 365 * from_march + from_march / 4 - from_march / 100 + from_march / 400 + before -
           719468;
}

/* Whether the text has this form; if so, sets `*millis`. */
static int
read_moment(const char *text, Py_ssize_t size, int64_t *millis)
{
    if (size < LEAST || size > MOST || text[4] != '-' || text[7] != '-' ||
        (text[10] != 'T' && text[10] != ' ') || text[13] != ':' || text[16] != ':')
        return 0;
    int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    int hour = digits(text + 11, 2), minute = digits(text + 14, 2), second = digits(text + 17, 2);
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour < 0 ||
        hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
        return 0;
    Py_ssize_t at = 19;
    int fraction = 0, count = 0;
    if (text[at] == '.' || text[at] == ',') {
        for (at++; at < size && count < 9 && text[at] >= '0' && text[at] <= '9'; at++, count++) {
            if (count < 3)
                fraction = 10 * fraction + (text[at] - '0');
        }
        if (!count)
            return 0;
        for (; count < 3; count++)
            fraction *= 10;
    }
    int64_t ahead = 0; /* minutes */
    if (size - at == 6 && (text[at] == '+' || text[at] == '-') && text[at + 3] == ':') {
        int hours = digits(text + at + 1, 2), minutes = digits(text + at + 4, 2);
        if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
            return 0;
        ahead = (text[at] == '-' ? -1 : 1) * (hours * 60 + minutes);
    } else if (size - at != 1 || text[at] != 'Z') {
        return 0;
    }
    int64_t minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - ahead;
    *millis = (minutes * 60 + second) * 1000 + fraction;
    return 1;
}

static PyObject *
moment_of(PyObject *value)
{
    int64_t millis;
    Py_ssize_t size;
    if (PyUnicode_CheckExact(value)) {
        const char *text = PyUnicode_AsUTF8AndSize(value, &size);
        if (!text)
            PyErr_Clear(); /* half a surrogate pair */
        else if (read_moment(text, size, &millis))
            return PyLong_FromLongLong(millis);
    }
    Py_RETURN_NONE;
}

static PyObject *
moments(PyObject *Py_UNUSED(module), PyObject *values)
{
    if (!PyList_CheckExact(values)) {
        PyErr_SetString(PyExc_TypeError, "moments(values: list)");
        return NULL;
    }
    const Py_ssize_t count = PyList_Size(values);
    PyObject *found = PyList_New(count);
    for (Py_ssize_t at = 0; found && at < count; at++) {
        PyObject *value = PyList_GetItem(values, at);
        PyObject *moment = value ? moment_of(value) : NULL;
        if (!moment || PyList_SetItem(found, at, moment) < 0)
            Py_CLEAR(found);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"moments", moments, METH_O,
     "moments(values): milliseconds since 1970, None for what has not the usual form."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "agent.encoding.events._iso_times",
    .m_doc = "Reads times as most programs write them.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__iso_times(void)
{
    return PyModuleDef_Init(&definition);
}
