/*
 * Native replay of CPU graphs: walks arrays of calls of NumPy's own inner loops, without the interpreter in between.
 *
 * NumPy hands a ufunc's inner loop out as a capsule (ufunc._get_strided_loop); the struct below restates the layout that
 * the docstring of that function documents for the capsule name "numpy_1.24_ufunc_call_info". Nothing else of NumPy's C
 * interface is used.
 *
 * Block      a run of elementwise calls over one iteration space, walked strip by strip so that intermediates stay in cache.
 * Walk       an executable graph: blocks and Python callables in order. Calling it replays.
 *
 * Limited API of CPython 3.10.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#define GC_MXCSR 1
#else
#include <fenv.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <time.h>
#define GC_THREADS 1
#endif

/* ---- what NumPy documents ------------------------------------------------------------------------------------------ */

typedef intptr_t index_t;
typedef int (*strided_loop)(void *context, char *const *data, const index_t *dimensions, const index_t *strides, void *auxdata);
typedef struct {
    strided_loop loop;
    void *context;
    void *auxdata;
    unsigned char requires_pyapi;
    unsigned char no_floatingpoint_errors;
} call_info;
#define CAPSULE_NAME "numpy_1.24_ufunc_call_info"

/* Floating-point error bits as NumPy numbers them. */
enum { FPE_DIVIDE = 1, FPE_OVERFLOW = 2, FPE_UNDERFLOW = 4, FPE_INVALID = 8 };

#if defined(GC_MXCSR) && defined(__GNUC__)
/*
 * The x87 status word, whose bits lie as those of MXCSR do. glibc raises overflow and underflow there (feraiseexcept), and
 * NumPy does so for half precision and single-precision exp.
 */
static inline unsigned x87_status(void)
{
    unsigned short status;
    __asm__ __volatile__("fnstsw %0" : "=a"(status));
    return status & 0x3fu;
}

static inline void x87_clear(void)
{
    __asm__ __volatile__("fnclex");
}
#else
#define x87_status() 0u
#define x87_clear() ((void)0)
#endif

static inline void clear_fpe(void)
{
#ifdef GC_MXCSR
    _mm_setcsr(_mm_getcsr() & ~0x3fu);
    if (x87_status()) x87_clear();
#else
    feclearexcept(FE_ALL_EXCEPT);
#endif
}

static inline unsigned get_fpe(void)
{
#ifdef GC_MXCSR
    unsigned s = (_mm_getcsr() | x87_status()) & 0x1du; /* invalid 1, divide 4, overflow 8, underflow 16 */
    if (s == 0) return 0;
    return (s & 4 ? FPE_DIVIDE : 0) | (s & 8 ? FPE_OVERFLOW : 0) | (s & 16 ? FPE_UNDERFLOW : 0) | (s & 1 ? FPE_INVALID : 0);
#else
    int s = fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
    return (s & FE_DIVBYZERO ? FPE_DIVIDE : 0) | (s & FE_OVERFLOW ? FPE_OVERFLOW : 0) | (s & FE_UNDERFLOW ? FPE_UNDERFLOW : 0) |
           (s & FE_INVALID ? FPE_INVALID : 0);
#endif
}

/* How a thread computes (rounding, subnormals). Worker threads take it over from the one that replays. */
#ifdef GC_MXCSR
typedef unsigned fp_mode;
static inline void get_mode(fp_mode *mode)
{
    *mode = _mm_getcsr() & ~0x3fu;
}
static inline void set_mode(const fp_mode *mode)
{
    _mm_setcsr(*mode);
}
#else
typedef fenv_t fp_mode;
static inline void get_mode(fp_mode *mode)
{
    fegetenv(mode);
}
static inline void set_mode(const fp_mode *mode)
{
    fesetenv(mode);
}
#endif

/* ---- calls and blocks ---------------------------------------------------------------------------------------------- */

#define MAX_OPERANDS 8
#define MAX_OUTER 8

/* In element operations. Variables, so that tests can send small arrays down the paths of large ones. */
static index_t keep_gil_below = 16384;  /* below, letting the GIL go costs more than it gives */
static index_t threads_above = 131072;  /* per thread: worth waking one */

typedef struct {
    char *base;       /* address of the first element; unused for scratch */
    index_t inner;    /* bytes between elements of a row */
    index_t scratch;  /* byte offset into the strip's scratch memory, or -1 */
    index_t row;      /* bytes between rows, where there is one outer dimension (or for scratch) */
    index_t *outer;   /* bytes between steps of each outer dimension, where there are more */
} operand;

typedef struct {
    strided_loop loop; /* NULL: copy operand 0 to operand 1 */
    void *context;
    void *auxdata;
    int operands;
    int checks_fpe;
    index_t itemsize; /* of a copy */
    index_t node;     /* index in the graph, for reports */
    index_t length;   /* elements, in a block of one row: calls may differ there */
    unsigned mask;    /* floating-point errors that are reported */
    unsigned seen;    /* those seen in this replay */
    operand *operand;
    index_t *strides; /* as the loop takes them */
} call;

/*
 * What the walk of a small block touches, one after the other in memory and nothing else, so that a graph of a million nodes
 * streams through the cache: this head, then the addresses and the strides as the loop takes them.
 */
typedef struct {
    strided_loop loop; /* NULL: copy */
    void *context;
    void *auxdata;
    index_t length;
    int32_t operands;
    int32_t checks_fpe;
} step;

typedef struct {
    PyObject_HEAD
    PyObject *kept; /* capsules and arrays */
    call *calls;
    index_t count;
    operand *operands;
    index_t *steps;   /* storage of operand.outer */
    index_t *strides; /* storage of call.strides */
    char *steps_of_row; /* of a block of one row: steps, packed */
    int outer_dims;
    index_t outer_shape[MAX_OUTER];
    index_t rows, row_length, last_length; /* the last row of each outer step may be shorter */
    index_t rows_per_strip;
    index_t scratch_bytes;
    char *scratch; /* of the thread that replays */
    index_t work;  /* element operations of one replay */
    int splits;    /* strips may go to different threads */
    unsigned any_mask;
} block;

static void copy_row(const operand *from, char *src, const operand *to, char *dst, index_t n, index_t itemsize)
{
    if (from->inner == itemsize && to->inner == itemsize) {
        memmove(dst, src, (size_t)(n * itemsize));
        return;
    }
    index_t si = from->inner, di = to->inner;
#define COPY(type)                                                                     \
    if (si == 0 && di == sizeof(type)) { /* a fill; the operands are disjoint */       \
        type one;                                                                      \
        memcpy(&one, src, sizeof one);                                                 \
        for (index_t i = 0; i < n; i++) memcpy(dst + i * (index_t)sizeof(type), &one, sizeof one); \
        return;                                                                        \
    }                                                                                  \
    for (index_t i = 0; i < n; i++, src += si, dst += di) {                            \
        type value;                                                                    \
        memcpy(&value, src, sizeof value);                                             \
        memcpy(dst, &value, sizeof value);                                             \
    }                                                                                  \
    return
    switch (itemsize) {
    case 1: COPY(uint8_t);
    case 2: COPY(uint16_t);
    case 4: COPY(uint32_t);
    case 8: COPY(uint64_t);
    default:
        for (index_t i = 0; i < n; i++, src += si, dst += di) memmove(dst, src, (size_t)itemsize);
    }
#undef COPY
}

static inline int run_call(const call *k, char **data, index_t n)
{
    if (k->loop == NULL) {
        copy_row(&k->operand[0], data[0], &k->operand[1], data[1], n, k->itemsize);
        return 0;
    }
    return k->loop(k->context, data, &n, k->strides, k->auxdata);
}

/* The addresses of one row where there are several outer dimensions. */
static void find_row(const block *b, const call *k, index_t row, index_t row_of_strip, char *scratch, char **data)
{
    index_t at[MAX_OUTER], rest = row;
    for (int d = b->outer_dims - 1; d >= 0; d--) {
        at[d] = rest % b->outer_shape[d];
        rest /= b->outer_shape[d];
    }
    for (int o = 0; o < k->operands; o++) {
        const operand *p = &k->operand[o];
        char *address = scratch + p->scratch + row_of_strip * p->row;
        if (p->scratch < 0) {
            address = p->base;
            for (int d = 0; d < b->outer_dims; d++) address += at[d] * p->outer[d];
        }
        data[o] = address;
    }
}

/* One strip: rows [first, last) of the block, call after call. */
static int run_strip(const block *b, index_t first, index_t last, char *scratch, unsigned *flags)
{
    char *data[MAX_OPERANDS];
    index_t n = b->row_length, steps = b->outer_shape[b->outer_dims - 1];
    int uneven = b->last_length != n;
    for (index_t c = 0; c < b->count; c++) {
        const call *k = &b->calls[c];
        if (b->outer_dims == 1) {
            for (int o = 0; o < k->operands; o++) {
                const operand *p = &k->operand[o];
                data[o] = p->scratch < 0 ? p->base + first * p->row : scratch + p->scratch;
            }
            for (index_t r = first;;) {
                if (run_call(k, data, uneven && r == b->rows - 1 ? b->last_length : n) < 0) return -1;
                if (++r == last) break;
                for (int o = 0; o < k->operands; o++) data[o] += k->operand[o].row;
            }
        } else {
            for (index_t r = first; r < last; r++) {
                find_row(b, k, r, r - first, scratch, data);
                if (run_call(k, data, uneven && r % steps == steps - 1 ? b->last_length : n) < 0) return -1;
            }
        }
        if (k->checks_fpe) {
            unsigned s = get_fpe();
            if (s) {
                clear_fpe();
                flags[c] |= s;
            }
        }
    }
    return 0;
}

/* Rows [first, last), strip by strip. */
static int run_rows(block *b, index_t first, index_t last, char *scratch, unsigned *flags)
{
    for (index_t r = first; r < last; r += b->rows_per_strip) {
        index_t end = r + b->rows_per_strip < last ? r + b->rows_per_strip : last;
        if (run_strip(b, r, end, scratch, flags) < 0) return -1;
    }
    return 0;
}

static inline char **step_data(step *k)
{
    return (char **)(k + 1);
}

static inline index_t *step_strides(step *k)
{
    return (index_t *)(step_data(k) + k->operands);
}

static inline step *step_next(step *k)
{
    return (step *)(step_strides(k) + k->operands);
}

/* The common small block: call after call, with nothing to compute in between. */
static int run_single(block *b)
{
    step *k = (step *)b->steps_of_row;
    for (index_t c = 0; c < b->count; c++, k = step_next(k)) {
        char **data = step_data(k);
        if (k->loop == NULL) {
            const operand *o = b->calls[c].operand;
            copy_row(&o[0], data[0], &o[1], data[1], k->length, b->calls[c].itemsize);
            continue;
        }
        if (k->loop(k->context, data, &k->length, step_strides(k), k->auxdata) < 0) return -1;
        if (k->checks_fpe) {
            unsigned s = get_fpe();
            if (s) {
                clear_fpe();
                b->calls[c].seen |= s;
            }
        }
    }
    return 0;
}

/* Pack the steps of a block of one row. */
static int pack_steps(block *b)
{
    size_t bytes = 0;
    for (index_t c = 0; c < b->count; c++) bytes += sizeof(step) + (size_t)b->calls[c].operands * 2 * sizeof(index_t);
    b->steps_of_row = malloc(bytes + 1);
    if (b->steps_of_row == NULL) return -1;
    step *k = (step *)b->steps_of_row;
    for (index_t c = 0; c < b->count; c++, k = step_next(k)) {
        const call *from = &b->calls[c];
        *k = (step){from->loop, from->context, from->auxdata, from->length, from->operands, from->checks_fpe};
        for (int o = 0; o < from->operands; o++) {
            step_data(k)[o] = from->operand[o].base;
            step_strides(k)[o] = from->operand[o].inner;
        }
    }
    return 0;
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

#ifdef GC_THREADS
#define MAX_THREADS 64

/* One job at a time: parts of blocks that do not depend on one another. */
typedef struct {
    block *b;
    index_t first, last; /* rows */
} part;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int started; /* worker threads that exist */
    int wanted;  /* workers that take part in this job */
    int joined;  /* workers that took part */
    int busy;    /* workers still at it */
    unsigned long job;
    part *parts;
    index_t count;
    index_t next;
    int failed;
    fp_mode mode;
    pthread_mutex_t one_job;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .one_job = PTHREAD_MUTEX_INITIALIZER};

static void work_on_parts(void)
{
    for (;;) {
        index_t i = __atomic_fetch_add(&pool.next, 1, __ATOMIC_RELAXED);
        if (i >= pool.count) return;
        part *p = &pool.parts[i];
        block *b = p->b;
        char *scratch = b->scratch_bytes ? malloc((size_t)b->scratch_bytes + 64) : NULL;
        unsigned *flags = calloc((size_t)b->count, sizeof *flags);
        if (flags == NULL || (b->scratch_bytes && scratch == NULL)) {
            __atomic_store_n(&pool.failed, 1, __ATOMIC_RELAXED);
        } else {
            char *aligned = (char *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
            if (run_rows(b, p->first, p->last, aligned, flags) < 0) __atomic_store_n(&pool.failed, 1, __ATOMIC_RELAXED);
            for (index_t c = 0; c < b->count; c++)
                if (flags[c]) __atomic_fetch_or(&b->calls[c].seen, flags[c], __ATOMIC_RELAXED);
        }
        free(flags);
        free(scratch);
    }
}

static void *worker(void *unused)
{
    unsigned long last_job = 0;
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.job == last_job || pool.joined >= pool.wanted) pthread_cond_wait(&pool.wake, &pool.lock);
        last_job = pool.job;
        pool.joined++;
        pool.busy++;
        set_mode(&pool.mode);
        pthread_mutex_unlock(&pool.lock);
        clear_fpe();
        work_on_parts();
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

/* How often this process was forked off, and the one thread that came along. */
static unsigned long forks, survivor;

static void after_fork_in_child(void)
{
    forks++;
    survivor = (unsigned long)pthread_self(); /* as PyThread_get_thread_ident has it */
    /* Threads do not survive a fork: start afresh. */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.one_job, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.started = pool.wanted = pool.joined = pool.busy = 0;
}

/* Run parts on up to `threads` threads, this one included. The GIL is not held. */
static int run_parts(part *parts, index_t count, int threads)
{
    pthread_mutex_lock(&pool.one_job);
    pthread_mutex_lock(&pool.lock);
    int helpers = threads - 1 < count - 1 ? threads - 1 : (int)count - 1;
    if (helpers > MAX_THREADS) helpers = MAX_THREADS;
    while (pool.started < helpers) {
        pthread_t id;
        if (pthread_create(&id, NULL, worker, NULL) != 0) break;
        pthread_detach(id);
        pool.started++;
    }
    pool.parts = parts;
    pool.count = count;
    pool.next = 0;
    pool.failed = 0;
    get_mode(&pool.mode);
    pool.joined = 0;
    pool.wanted = helpers < pool.started ? helpers : pool.started;
    pool.job++;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work_on_parts();
    pthread_mutex_lock(&pool.lock);
    pool.wanted = pool.joined; /* a worker that has not woken yet stays out */
    while (pool.busy) pthread_cond_wait(&pool.done, &pool.lock);
    int failed = pool.failed;
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.one_job);
    return failed ? -1 : 0;
}
#endif

/* ---- Block objects ------------------------------------------------------------------------------------------------- */

typedef struct {
    PyTypeObject *block_type;
    PyTypeObject *walk_type;
} module_state;

static void block_dealloc(PyObject *self)
{
    block *b = (block *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(b->kept);
    free(b->calls);
    free(b->operands);
    free(b->steps);
    free(b->strides);
    free(b->steps_of_row);
    free(b->scratch);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int block_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((block *)self)->kept);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int block_clear(PyObject *self)
{
    (void)self; /* the capsules must outlive the calls */
    return 0;
}

static index_t as_index(PyObject *o)
{
    return (index_t)PyLong_AsSsize_t(o);
}

static char *as_address(PyObject *o)
{
    return (char *)PyLong_AsVoidPtr(o);
}

/* One operand from (address | None, inner stride, scratch offset, outer strides). */
static int read_operand(block *b, PyObject *given, operand *to, index_t *strides)
{
    PyObject *address, *outer;
    Py_ssize_t inner, scratch;
    if (!PyArg_ParseTuple(given, "OnnO!:operand", &address, &inner, &scratch, &PyTuple_Type, &outer)) return -1;
    to->base = address == Py_None ? NULL : as_address(address);
    if (PyErr_Occurred()) return -1;
    to->inner = inner;
    to->scratch = scratch;
    to->outer = strides;
    to->row = 0;
    if (PyTuple_Size(outer) != (scratch >= 0 ? 1 : b->outer_dims)) {
        PyErr_SetString(PyExc_ValueError, "operand: one stride for each outer dimension is needed (one for scratch)");
        return -1;
    }
    for (Py_ssize_t d = 0; d < PyTuple_Size(outer); d++) {
        strides[d] = as_index(PyTuple_GetItem(outer, d));
        if (PyErr_Occurred()) return -1;
    }
    if (PyTuple_Size(outer) >= 1) to->row = strides[0];
    return 0;
}

/*
 * Block(calls, outer_shape, row_length, last_length, rows_per_strip, scratch_bytes, splits, kept)
 * calls: a list of (capsule | None, node, mask, itemsize, length, (operand, ...)); a block with outer_shape () is walked
 * call after call, each with a length of its own.
 */
static PyObject *block_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *calls, *outer, *kept;
    Py_ssize_t row_length, last_length, rows_per_strip, scratch_bytes;
    int splits;
    if (kwargs != NULL && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Block takes positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!nnnnpO:Block", &PyList_Type, &calls, &PyTuple_Type, &outer, &row_length, &last_length,
                          &rows_per_strip, &scratch_bytes, &splits, &kept))
        return NULL;
    if (PyTuple_Size(outer) > MAX_OUTER || rows_per_strip < 1 || scratch_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "Block: bad geometry");
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    block *b = (block *)alloc(type, 0);
    if (b == NULL) return NULL;
    b->count = PyList_Size(calls);
    b->outer_dims = (int)PyTuple_Size(outer);
    b->rows = 1;
    for (int d = 0; d < b->outer_dims; d++) {
        b->outer_shape[d] = as_index(PyTuple_GetItem(outer, d));
        b->rows *= b->outer_shape[d];
    }
    b->row_length = row_length;
    b->last_length = last_length;
    b->rows_per_strip = rows_per_strip;
    b->scratch_bytes = scratch_bytes;
    b->splits = splits;
    Py_ssize_t operands = 0;
    for (index_t c = 0; c < b->count; c++) {
        PyObject *entry = PyList_GetItem(calls, c);
        PyObject *list = PyTuple_Check(entry) && PyTuple_Size(entry) == 6 ? PyTuple_GetItem(entry, 5) : NULL;
        if (list == NULL || !PyTuple_Check(list) || PyTuple_Size(list) > MAX_OPERANDS) {
            PyErr_SetString(PyExc_ValueError, "Block: a call is (capsule, node, mask, itemsize, length, operands)");
            goto fail;
        }
        operands += PyTuple_Size(list);
    }
    b->calls = calloc((size_t)b->count + 1, sizeof(call));
    b->operands = calloc((size_t)operands + 1, sizeof(operand));
    int width = b->outer_dims > 1 ? b->outer_dims : 1;
    b->steps = calloc((size_t)(operands * width) + 1, sizeof(index_t));
    b->strides = calloc((size_t)operands + 1, sizeof(index_t));
    b->scratch = malloc((size_t)scratch_bytes + 64);
    if (b->calls == NULL || b->operands == NULL || b->steps == NULL || b->strides == NULL || b->scratch == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    operand *next = b->operands;
    for (index_t c = 0; c < b->count; c++) {
        PyObject *entry = PyList_GetItem(calls, c), *capsule = PyTuple_GetItem(entry, 0), *list = PyTuple_GetItem(entry, 5);
        call *k = &b->calls[c];
        k->node = as_index(PyTuple_GetItem(entry, 1));
        k->mask = (unsigned)PyLong_AsLong(PyTuple_GetItem(entry, 2));
        k->itemsize = as_index(PyTuple_GetItem(entry, 3));
        k->length = as_index(PyTuple_GetItem(entry, 4));
        b->work += k->length;
        if (PyErr_Occurred()) goto fail;
        k->operands = (int)PyTuple_Size(list);
        k->operand = next;
        if (capsule != Py_None) {
            call_info *info = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
            if (info == NULL) goto fail;
            if (info->requires_pyapi || info->loop == NULL) {
                PyErr_SetString(PyExc_ValueError, "Block: the loop needs the GIL or was not fetched");
                goto fail;
            }
            k->loop = info->loop;
            k->context = info->context;
            k->auxdata = info->auxdata;
            k->checks_fpe = !info->no_floatingpoint_errors;
            b->any_mask |= k->checks_fpe ? k->mask : 0;
        } else if (k->operands != 2) {
            PyErr_SetString(PyExc_ValueError, "Block: a copy has two operands");
            goto fail;
        }
        for (int o = 0; o < k->operands; o++, next++) {
            if (read_operand(b, PyTuple_GetItem(list, o), next, b->steps + (next - b->operands) * width) < 0) goto fail;
        }
        k->strides = b->strides + (k->operand - b->operands);
        for (int o = 0; o < k->operands; o++) k->strides[o] = k->operand[o].inner;
        for (int o = 0; b->outer_dims == 0 && o < k->operands; o++) {
            if (k->operand[o].scratch >= 0) {
                PyErr_SetString(PyExc_ValueError, "Block: a block of one row has no scratch memory");
                goto fail;
            }
        }
    }
    if (b->outer_dims == 0 && pack_steps(b) < 0) {
        PyErr_NoMemory();
        goto fail;
    }
    if (b->outer_dims) b->work = b->count * b->rows * row_length;
    b->kept = Py_NewRef(kept);
    return (PyObject *)b;
fail:
    Py_DECREF(b);
    return NULL;
}

/* ---- Walk objects -------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *items;       /* tuple: Block, tuple of Blocks that do not depend on one another, or a callable */
    PyObject *report;      /* report(node, flags): tells the floating-point errors of a node; node -1: re-entered */
    PyObject *gates;       /* tuple of lists: if one is not empty, `slow` is called first */
    PyObject *slow;        /* checks what the lists say; raises if the replay may not go on */
    PyObject *failed;      /* failed(item): adds a note to the exception that is being raised */
    PyTypeObject *block_type;
    int busy;            /* guarded by the GIL */
    unsigned long forks; /* when it became busy */
    unsigned long owner;
    int threads;
} walk;

static int walk_traverse(PyObject *self, visitproc visit, void *arg)
{
    walk *w = (walk *)self;
    Py_VISIT(w->items);
    Py_VISIT(w->report);
    Py_VISIT(w->gates);
    Py_VISIT(w->slow);
    Py_VISIT(w->failed);
    Py_VISIT(w->block_type);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int walk_clear(PyObject *self)
{
    walk *w = (walk *)self;
    Py_CLEAR(w->report);
    Py_CLEAR(w->gates);
    Py_CLEAR(w->slow);
    Py_CLEAR(w->failed);
    Py_CLEAR(w->items);
    return 0;
}

static void walk_dealloc(PyObject *self)
{
    walk *w = (walk *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    walk_clear(self);
    Py_CLEAR(w->block_type);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* Walk(items, report, gates, slow, failed, threads) */
static PyObject *walk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *items, *report, *gates, *slow, *failed;
    int threads;
    if (kwargs != NULL && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Walk takes positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!OO!OOi:Walk", &PyTuple_Type, &items, &report, &PyTuple_Type, &gates, &slow, &failed,
                          &threads))
        return NULL;
    module_state *state = PyType_GetModuleState(type);
    if (state == NULL) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(gates); i++) {
        if (!PyList_Check(PyTuple_GetItem(gates, i))) {
            PyErr_SetString(PyExc_TypeError, "Walk: gates are lists");
            return NULL;
        }
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    walk *w = (walk *)alloc(type, 0);
    if (w == NULL) return NULL;
    w->items = Py_NewRef(items);
    w->report = Py_NewRef(report);
    w->gates = Py_NewRef(gates);
    w->slow = Py_NewRef(slow);
    w->failed = Py_NewRef(failed);
    w->block_type = (PyTypeObject *)Py_NewRef(state->block_type);
    w->threads = threads < 1 ? 1 : threads;
    return (PyObject *)w;
}

static void forget_flags(block *b)
{
    for (index_t c = 0; c < b->count; c++) b->calls[c].seen = 0;
}

/* Tell the floating-point errors of a block in node order. */
static int report_block(walk *w, block *b)
{
    if (!b->any_mask) return 0;
    for (index_t c = 0; c < b->count; c++) {
        call *k = &b->calls[c];
        unsigned told = k->seen & k->mask;
        k->seen = 0;
        if (!told) continue;
        PyObject *result = PyObject_CallFunction(w->report, "nI", (Py_ssize_t)k->node, told);
        if (result == NULL) {
            forget_flags(b);
            return -1;
        }
        Py_DECREF(result);
    }
    return 0;
}

static int loop_failed(void)
{
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "an inner loop of NumPy reported a failure");
    return -1;
}

static int run_one(block *b)
{
    if (b->outer_dims == 0) return run_single(b);
    unsigned few[64], *flags = few;
    if (b->count > 64) {
        flags = malloc((size_t)b->count * sizeof *flags);
        if (flags == NULL) return -1;
    }
    memset(flags, 0, (size_t)b->count * sizeof *flags);
    char *aligned = (char *)(((uintptr_t)b->scratch + 63) & ~(uintptr_t)63);
    int rc = run_rows(b, 0, b->rows, aligned, flags);
    for (index_t c = 0; c < b->count; c++) b->calls[c].seen |= flags[c];
    if (flags != few) free(flags);
    return rc;
}

/* Blocks that do not depend on one another: on one thread, or cut into parts for several. */
static int run_blocks(walk *w, block **blocks, Py_ssize_t count)
{
    index_t work = 0;
    int rc = 0;
    for (Py_ssize_t i = 0; i < count; i++) work += blocks[i]->work;
    if (work < keep_gil_below) {
        clear_fpe();
        for (Py_ssize_t i = 0; rc == 0 && i < count; i++) rc = run_one(blocks[i]);
        return rc < 0 || PyErr_Occurred() ? loop_failed() : 0;
    }
    int threads = w->threads;
    if (work / threads_above < threads) threads = (int)(work / threads_above);
    Py_BEGIN_ALLOW_THREADS
#ifdef GC_THREADS
    part *parts = NULL;
    index_t total = 0;
    if (threads > 1) {
        index_t per_part = work / (threads * 4) + 1;
        for (Py_ssize_t i = 0; i < count; i++) {
            block *b = blocks[i];
            total += b->splits ? b->work / per_part + 1 : 1;
        }
        parts = malloc((size_t)total * sizeof *parts);
    }
    if (parts != NULL && total > 1) {
        index_t at = 0;
        index_t per_part = work / (threads * 4) + 1;
        for (Py_ssize_t i = 0; i < count; i++) {
            block *b = blocks[i];
            index_t pieces = b->splits ? b->work / per_part + 1 : 1;
            index_t strips = (b->rows + b->rows_per_strip - 1) / b->rows_per_strip;
            if (pieces > strips) pieces = strips;
            for (index_t p = 0; p < pieces; p++) {
                index_t first = strips * p / pieces * b->rows_per_strip, last = strips * (p + 1) / pieces * b->rows_per_strip;
                if (last > b->rows) last = b->rows;
                parts[at++] = (part){b, first, last};
            }
        }
        clear_fpe();
        rc = run_parts(parts, at, threads);
    } else
#endif
    {
        clear_fpe();
        for (Py_ssize_t i = 0; rc == 0 && i < count; i++) rc = run_one(blocks[i]);
    }
#ifdef GC_THREADS
    free(parts);
#endif
    Py_END_ALLOW_THREADS
    return rc < 0 || PyErr_Occurred() ? loop_failed() : 0;
}

static int run_item(walk *w, PyObject *item)
{
    if (Py_TYPE(item) == w->block_type) {
        block *b = (block *)item;
        return run_blocks(w, &b, 1) < 0 || report_block(w, b) < 0 ? -1 : 0;
    }
    if (PyTuple_Check(item)) {
        Py_ssize_t count = PyTuple_Size(item);
        block *few[16], **blocks = few;
        if (count > 16) {
            blocks = PyMem_Malloc((size_t)count * sizeof *blocks);
            if (blocks == NULL) {
                PyErr_NoMemory();
                return -1;
            }
        }
        for (Py_ssize_t i = 0; i < count; i++) blocks[i] = (block *)PyTuple_GetItem(item, i);
        int rc = run_blocks(w, blocks, count);
        for (Py_ssize_t i = 0; rc == 0 && i < count; i++) rc = report_block(w, blocks[i]);
        if (rc < 0)
            for (Py_ssize_t i = 0; i < count; i++) forget_flags(blocks[i]);
        if (blocks != few) PyMem_Free(blocks);
        return rc;
    }
    PyObject *result = PyObject_CallNoArgs(item);
    if (result == NULL) return -1;
    Py_DECREF(result);
    return 0;
}

static void note_failure(walk *w, Py_ssize_t item)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *result = PyObject_CallFunction(w->failed, "nO", item, value == NULL ? Py_None : value);
    if (result == NULL) PyErr_Clear(); /* the note is a courtesy; the exception itself matters */
    Py_XDECREF(result);
    PyErr_Restore(type, value, trace);
}

static void wait_a_little(void)
{
#ifdef GC_THREADS
    struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
#endif
}

static PyObject *walk_replay(PyObject *self, PyObject *unused)
{
    walk *w = (walk *)self;
    (void)unused;
    for (Py_ssize_t i = 0, n = w->gates == NULL ? 0 : PyTuple_Size(w->gates); i < n; i++) {
        if (PyList_Size(PyTuple_GetItem(w->gates, i))) {
            PyObject *result = PyObject_CallNoArgs(w->slow);
            if (result == NULL) return NULL;
            Py_DECREF(result);
            break;
        }
    }
#ifdef GC_THREADS
    if (w->busy && w->forks != forks && w->owner != survivor) w->busy = 0; /* that thread did not survive the fork */
#endif
    while (w->busy) {
        /* Another thread replays this walk and let the GIL go. Rare, so waiting is plain. */
        if (w->owner == PyThread_get_thread_ident()) {
            return PyObject_CallFunction(w->report, "nI", (Py_ssize_t)-1, 0u); /* raises */
        }
        Py_BEGIN_ALLOW_THREADS
        wait_a_little();
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) return NULL;
    }
    if (w->items == NULL) { /* cleared by the garbage collector, and called by what dies with it */
        PyErr_SetString(PyExc_RuntimeError, "the graph was already torn down by the garbage collector");
        return NULL;
    }
    w->busy = 1;
    w->owner = PyThread_get_thread_ident();
#ifdef GC_THREADS
    w->forks = forks;
#endif
    PyObject *items = Py_NewRef(w->items), *keep = Py_NewRef(self);
    Py_ssize_t count = PyTuple_Size(items), i = 0;
    int rc = 0;
    for (; i < count; i++) {
        rc = run_item(w, PyTuple_GetItem(items, i));
        if (rc < 0) break;
    }
    w->busy = 0;
    if (rc < 0) note_failure(w, i);
    Py_DECREF(items);
    Py_DECREF(keep);
    if (rc < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *tune(PyObject *module, PyObject *args)
{
    Py_ssize_t gil, threads;
    (void)module;
    if (!PyArg_ParseTuple(args, "nn:tune", &gil, &threads)) return NULL;
    if (gil < 0 || threads < 1) {
        PyErr_SetString(PyExc_ValueError, "tune: keep_gil_below must be at least 0, threads_above at least 1");
        return NULL;
    }
    PyObject *before = Py_BuildValue("nn", keep_gil_below, threads_above);
    keep_gil_below = gil;
    threads_above = threads;
    return before;
}

/* ---- module -------------------------------------------------------------------------------------------------------- */

static PyMethodDef walk_methods[] = {
    {"replay", walk_replay, METH_NOARGS, "Run all items in order. One walk never overlaps itself."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"tune", tune, METH_VARARGS, "tune(keep_gil_below, threads_above) -> the values before. For tests."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, "A run of elementwise calls over one iteration space."},
    {Py_tp_new, block_new},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_traverse, block_traverse},
    {Py_tp_clear, block_clear},
    {0, NULL},
};
static PyType_Spec block_spec = {"graphcap.backends.cpu.native._walk.Block", sizeof(block), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, block_slots};

static PyType_Slot walk_slots[] = {
    {Py_tp_doc, "An executable graph: blocks and Python callables in order."},
    {Py_tp_new, walk_new},
    {Py_tp_dealloc, walk_dealloc},
    {Py_tp_traverse, walk_traverse},
    {Py_tp_clear, walk_clear},
    {Py_tp_methods, walk_methods},
    {0, NULL},
};
static PyType_Spec walk_spec = {"graphcap.backends.cpu.native._walk.Walk", sizeof(walk), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, walk_slots};

static int module_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    state->block_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &block_spec, NULL);
    if (state->block_type == NULL) return -1;
    state->walk_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &walk_spec, NULL);
    if (state->walk_type == NULL) return -1;
    if (PyModule_AddType(module, state->block_type) < 0 || PyModule_AddType(module, state->walk_type) < 0) return -1;
    if (PyModule_AddStringConstant(module, "CAPSULE_NAME", CAPSULE_NAME) < 0) return -1;
    if (PyModule_AddIntConstant(module, "MAX_OPERANDS", MAX_OPERANDS) < 0) return -1;
    if (PyModule_AddIntConstant(module, "MAX_OUTER", MAX_OUTER) < 0) return -1;
#ifdef GC_THREADS
    static int registered = 0;
    if (!registered) {
        registered = 1;
        pthread_atfork(NULL, NULL, after_fork_in_child);
    }
#endif
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    Py_VISIT(state->block_type);
    Py_VISIT(state->walk_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->block_type);
    Py_CLEAR(state->walk_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_walk", "Native replay of CPU graphs.", sizeof(module_state), functions,
    module_slots, module_traverse, module_clear, NULL,
};

PyMODINIT_FUNC PyInit__walk(void)
{
    return PyModuleDef_Init(&module_def);
}
