/* lfarm's C interface: runs PyTorch models with kernel plans that a farm found.
 *
 *   lfarm_session   where plans come from and what they run on; any thread may use it
 *   lfarm_model     an exported program and its weights; any thread may use it
 *   lfarm_instance  one running copy of a model with its state; one thread at a time
 *
 * Functions that can fail return an lfarm_status and, unless `error` is NULL, leave an lfarm_error
 * there that says what went wrong, where, and what to do; the caller frees it. Objects are
 * reference-counted inside: a model may be freed before its instances, a session before its models.
 *
 * A thread's current CUDA context, or that it has none, is after each function what it was before.
 * Sessions of several GPUs live side by side in one process.
 *
 * The interface only grows: what is compiled against one version runs with any later one of the
 * same LFARM_ABI_VERSION. */
#ifndef LFARM_H
#define LFARM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names are C's. NOLINTBEGIN(readability-identifier-naming) */
#define LFARM_ABI_VERSION 1

#if defined(LFARM_BUILDING)
#define LFARM_API __attribute__((visibility("default")))
#else
#define LFARM_API
#endif

/* The LFARM_ABI_VERSION of the library that is loaded. */
LFARM_API uint32_t lfarm_abi_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The numbers up to 5, and 1 for LFARM_OUT_OF_RANGE, are lfarm's exit codes. */
typedef enum lfarm_status {
  LFARM_OK = 0,
  LFARM_FAILED = 1,       /* nobody expected it: the message tells */
  LFARM_INVALID = 2,      /* wrong argument, option or file */
  LFARM_UNSUPPORTED = 3,  /* the model uses something that lfarm does not know */
  LFARM_UNAVAILABLE = 4,  /* the farm is away */
  LFARM_VERIFICATION = 5, /* a plan is not one to trust */
  LFARM_TIMED_OUT = 6,    /* not yet: the time given was not enough */
  LFARM_OUT_OF_RANGE = 7  /* an index among a call's inputs is outside of what it addresses */
} lfarm_status;

typedef struct lfarm_error lfarm_error;
LFARM_API lfarm_status lfarm_error_status(const lfarm_error* error);
/* One line; valid as long as the error is. */
LFARM_API const char* lfarm_error_message(const lfarm_error* error);
LFARM_API void lfarm_error_free(lfarm_error* error);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* These three have the layout of DLPack's DLDevice, DLDataType and DLTensor. */
typedef struct lfarm_device {
  int32_t type; /* 1: host memory, 2: memory of a CUDA GPU, 3: host memory that a GPU reads, too */
  int32_t id;   /* of the GPU, among those that this process sees */
} lfarm_device;

typedef struct lfarm_dtype {
  uint8_t code; /* 0 int, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} lfarm_dtype;

typedef struct lfarm_tensor {
  void* data;
  lfarm_device device;
  int32_t ndim;
  lfarm_dtype dtype;
  int64_t* shape;
  int64_t* strides;     /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset; /* of the first element from `data` */
} lfarm_tensor;

/* ---- Sessions -------------------------------------------------------------------------------- */

/* Where a session's memory on a GPU comes from instead of the CUDA driver, such as an application's
 * caching allocator. Any thread may call, also several at once; the device's primary context is
 * current then. `stream` is a CUstream of the session's own, in whose order alone the memory is
 * used. What a session keeps between calls is given back with the instances and outputs that use
 * it. */
typedef struct lfarm_allocator {
  size_t size; /* of this struct, set by the caller */
  void* context;
  /* At least that many bytes of GPU number `device`, at a multiple of 64; NULL: there is no room.
   */
  void* (*allocate)(void* context, size_t bytes, int32_t device, void* stream);
  /* What allocate() gave, with the same arguments; work on the stream may still use it. */
  void (*release)(void* context, void* data, size_t bytes, int32_t device, void* stream);
  /* After the last call of the others, or when the session is not opened; may be NULL. */
  void (*destroy)(void* context);
} lfarm_allocator;

/* Fill it with lfarm_options_init() and change what should be otherwise. Strings are copied. */
typedef struct lfarm_options {
  size_t size;      /* of this struct, set by lfarm_options_init() */
  const char* farm; /* endpoint, as tcp://host:7171; NULL: $LFARM_FARM, else this machine's own */
  const char* farm_key; /* the farm's CURVE public key, for farms on other machines */
  const char* keys;     /* file of this client's CURVE keys; NULL: one in the state directory */
  const char* trust;    /* the farm's signing key; NULL: the one it had when it was first met */
  const char* state;    /* directory of keys and cached plans; NULL: as `lfarm --state` */
  const char* device;   /* "auto", "cpu", "cuda" for GPU 0, or "cuda:1" for the second GPU */
  /* "strict", or "relaxed": holds while all values are finite. "strict,memory=BYTES" also bounds
   * what a call takes for values between kernels and for scratch areas: plans compute some values
   * again. */
  const char* numerics;
  int32_t threads;            /* of the host, that share one call; 0: as many as the machine has */
  int64_t deadline_ms;        /* how long lfarm_instance_create() waits for the plan */
  uint64_t cache_bytes;       /* bound on cached plans on disk; 0: none */
  uint64_t budget_candidates; /* of a search; 0: the farm's own */
  uint64_t budget_ms;
  /* Parts of a model's sizes that have plans of their own, which instances choose between by what
   * they are given: "s0=1;s0=2..128" for decoding and prompts, "s0=1,s1=8..64" for two sizes. Sizes
   * are numbered as `lfarm print --stage hlir` does. NULL: one plan for all sizes. */
  const char* sizes;
  uint64_t revocations_ms; /* between looks at what the farm has revoked; 0: none */
} lfarm_options;
LFARM_API void lfarm_options_init(lfarm_options* options);

typedef struct lfarm_session lfarm_session;
/* `options` may be NULL. Asks no farm yet. */
LFARM_API lfarm_status lfarm_session_open(const lfarm_options* options, lfarm_session** session,
                                          lfarm_error** error);
/* The same with memory of the application's, where the device is a GPU. `allocator` is copied;
 * NULL: the CUDA driver's memory. */
LFARM_API lfarm_status lfarm_session_open_with(const lfarm_options* options,
                                               const lfarm_allocator* allocator,
                                               lfarm_session** session, lfarm_error** error);
/* Whether the farm's searches for this session's plans go on after the session's end; at first they
 * do not. */
LFARM_API void lfarm_session_keep_searches(lfarm_session* session, int keep);
/* Waits for calls of its own to farms to end, not for searches: those that nobody else waits for
 * are cancelled, unless lfarm_session_keep_searches() was called. */
LFARM_API void lfarm_session_free(lfarm_session* session);

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct lfarm_model lfarm_model;
/* `path`: what torch.export.save() wrote. Weights stay mapped, and are read when they are needed.
 */
LFARM_API lfarm_status lfarm_model_load(lfarm_session* session, const char* path,
                                        lfarm_model** model, lfarm_error** error);
/* A model of which only the graph's hash (lfarm_model_graph_hash) is at hand. Its plan must be on
 * this machine's disk or at the farm: waits for it up to the session's deadline, and
 * LFARM_UNAVAILABLE says that there is none. Weights and first states are bound before the first
 * instance is made. `signature`: what `lfarm print --stage signature` wrote, which names tensors as
 * the module did and says where the model returns None and complex numbers; NULL: tensors are named
 * by their positions among the graph's inputs, and the call takes and returns what the graph does.
 */
LFARM_API lfarm_status lfarm_model_find(lfarm_session* session, const char* graph_hash,
                                        const char* signature, lfarm_model** model,
                                        lfarm_error** error);
/* The content of a weight, or first content of a state, for instances that are made from now on.
 * The memory stays the caller's, unchanged as long as they run; of states a copy is kept. What lies
 * on the session's device, or in host memory for the CPU, at a multiple of 64 bytes is used in
 * place; other memory is copied once for all instances. */
LFARM_API lfarm_status lfarm_model_bind(lfarm_model* model, const char* name,
                                        const lfarm_tensor* tensor, lfarm_error** error);
/* The same for all tensors of a .safetensors file, or of a .pt2 file, that the model has; the file
 * stays mapped. LFARM_INVALID when a tensor has another type, or one that has no content yet is
 * missing. */
LFARM_API lfarm_status lfarm_model_bind_file(lfarm_model* model, const char* path,
                                             lfarm_error** error);
LFARM_API void lfarm_model_free(lfarm_model* model);
/* 64 hexadecimal digits that stand for what the model computes, whatever its weights' values. */
LFARM_API const char* lfarm_model_graph_hash(const lfarm_model* model);
/* How many tensors a call takes, and returns values; None counts among the latter. */
LFARM_API size_t lfarm_model_inputs(const lfarm_model* model);
LFARM_API size_t lfarm_model_outputs(const lfarm_model* model);

/* ---- Instances ------------------------------------------------------------------------------- */

typedef struct lfarm_instance lfarm_instance;
/* Waits for the plan up to the session's deadline. Without it, calls are computed by a slow
 * interpreter until the plan is there, which the farm looks for meanwhile; the change happens
 * between two calls, and the state stays. */
LFARM_API lfarm_status lfarm_instance_create(lfarm_model* model, lfarm_instance** instance,
                                             lfarm_error** error);
LFARM_API void lfarm_instance_free(lfarm_instance* instance);
/* What a farm found for the model. Texts are valid until the instance changes over or goes. */
typedef struct lfarm_plan {
  size_t size;          /* of this struct, set by the caller */
  const char* id;       /* 64 hexadecimal digits */
  const char* target;   /* the machine it is for, as cpu-x86_64-avx512 */
  const char* farm;     /* that found it */
  int64_t best_ns;      /* one run, as the farm measured it */
  int64_t baseline_ns;  /* one run of the plain program, measured beside it */
  int64_t candidates;   /* that were tried */
  int64_t created_ns;   /* since 1970 */
  const char* standing; /* "final"; "interim": its search goes on; "neighbour": it was chosen on
                           another kind of machine */
  double speedup;       /* the plain plan's time over this one's, measured in turns; 0: unknown */
  double speedup_low;   /* bounds of its 95 % confidence interval */
  double speedup_high;
  const char* newer; /* id of a plan that calls change over to once it is loaded; NULL: none */
} lfarm_plan;
/* 1 and the plan that calls run, unless `plan` is NULL; 0: the interpreter computes them. */
LFARM_API int lfarm_instance_plan(const lfarm_instance* instance, lfarm_plan* plan);
/* Waits until calls run a plan. LFARM_TIMED_OUT when none came in time; else what has gone wrong.
 * A farm that is away is asked again, so that waiting once more may help. */
LFARM_API lfarm_status lfarm_instance_wait(lfarm_instance* instance, int64_t timeout_ms,
                                           lfarm_error** error);

/* Random numbers that later calls draw, with the seed's first ones in the next call. Each call goes
 * on where the one before stopped, and two instances with one seed draw the same numbers on any
 * device and by any plan. A new instance has the seed 0. LFARM_INVALID when the model draws none.
 */
LFARM_API lfarm_status lfarm_instance_seed(lfarm_instance* instance, uint64_t seed,
                                           lfarm_error** error);

/* Permits later calls to write the memory of these inputs, by their positions among the tensors
 * that the model takes, once they need them no more: a call then takes less memory for values of
 * its own. What such an input holds after a call is undefined. No other input of a call has its
 * memory. No use is made of inputs that the model mutates, nor on GPUs. LFARM_INVALID for a
 * position that is none. */
LFARM_API lfarm_status lfarm_instance_donate(lfarm_instance* instance, const size_t* inputs,
                                             size_t count, lfarm_error** error);

/* What a call returned. */
typedef struct lfarm_outputs lfarm_outputs;

/* One call. `inputs`: one for each tensor that the model takes, in order; those that the model
 * mutates are written. Outputs come in host memory. `*outputs` is NULL, or what an earlier call of
 * this instance gave: its memory is used again, and what it held is gone. LFARM_INVALID names the
 * input that does not fit, LFARM_OUT_OF_RANGE the input, position and range of an index that
 * PyTorch would refuse; the model's state is undefined after the latter. */
LFARM_API lfarm_status lfarm_instance_run(lfarm_instance* instance, const lfarm_tensor* inputs,
                                          size_t count, lfarm_outputs** outputs,
                                          lfarm_error** error);
/* The same with outputs in the memory of the session's device, where inputs should lie too:
 * nothing of them goes through the host. `stream`: a CUstream of the GPU's primary context, on
 * which the call is put and not waited for, unless an input lies in host memory; inputs stay
 * unchanged and outputs where they are until the stream has passed the call. NULL: done on return.
 * Calls of one session run one after another, whatever their streams. LFARM_INVALID for a stream
 * where the session's device has none. A stream that is being captured gets the call into its
 * graph, which allocates nothing: a call of the same sizes has to come before, and outputs go
 * where that one's went or into memory of the caller's (lfarm_outputs_wrap); LFARM_INVALID or
 * LFARM_UNSUPPORTED say what is missing, and leave the capture whole. The graph must end before
 * the instance does and not run beside its calls; replays and calls that take turns go on with one
 * state. Outputs that are freed may be written by later calls of the session. LFARM_OUT_OF_RANGE
 * may be about an earlier call: one that was put on a stream is not waited for, and reported by
 * the next call after the stream has passed it, which is not made then. */
LFARM_API lfarm_status lfarm_instance_run_on(lfarm_instance* instance, void* stream,
                                             const lfarm_tensor* inputs, size_t count,
                                             lfarm_outputs** outputs, lfarm_error** error);
/* Outputs for lfarm_instance_run_on() in memory of the caller's, at a multiple of 64 bytes, one
 * tensor for each value that the model returns, in order, of its type and sizes. */
LFARM_API lfarm_status lfarm_outputs_wrap(lfarm_instance* instance, const lfarm_tensor* tensors,
                                          size_t count, lfarm_outputs** outputs,
                                          lfarm_error** error);
LFARM_API size_t lfarm_outputs_count(const lfarm_outputs* outputs);
/* NULL where the model returns None. Valid as long as the outputs are. */
LFARM_API const lfarm_tensor* lfarm_outputs_get(const lfarm_outputs* outputs, size_t index);
LFARM_API void lfarm_outputs_free(lfarm_outputs* outputs);

/* ---- States ---------------------------------------------------------------------------------- */

/* The content of a state, such as a cache or a parameter that the model trains, as the last call
 * left it: a copy in host memory, the only one of `*content`, which is NULL or what an earlier call
 * of this function gave. A complex state has its parts as a last axis of two. Waits for calls on
 * streams. LFARM_INVALID when the model has no state of this name. */
LFARM_API lfarm_status lfarm_instance_state(lfarm_instance* instance, const char* name,
                                            lfarm_outputs** content, lfarm_error** error);
/* Gives a state another content, such as a checkpoint's, for the next call to begin with.
 * `tensor`: of the state's type and sizes, in host memory; it is copied. */
LFARM_API lfarm_status lfarm_instance_set_state(lfarm_instance* instance, const char* name,
                                                const lfarm_tensor* tensor, lfarm_error** error);

/* ---- Language models ------------------------------------------------------------------------- */

/* Fill it with lfarm_generation_init() and change what should be otherwise. */
typedef struct lfarm_generation {
  size_t size;         /* of this struct, set by lfarm_generation_init() */
  int64_t tokens;      /* new ones at most, for each sequence */
  double temperature;  /* what logits are divided by; 0: the token with the greatest is taken */
  int64_t top_k;       /* draw among so many most probable tokens; 0: all */
  double top_p;        /* of these, among the fewest whose probabilities sum to it; in (0, 1] */
  uint64_t seed;       /* tokens drawn depend on it, the logits, sequence and position alone */
  const int64_t* stop; /* a sequence ends with one of these tokens */
  size_t stop_count;
  int64_t chunk; /* tokens of a prompt that one call takes at most; 0: as many as the model takes */
  int64_t start; /* position of the first token, after those of earlier runs of the instance */
} lfarm_generation;
LFARM_API void lfarm_generation_init(lfarm_generation* options);

/* An instance for lfarm_generate(), with one plan for prompts and one for single tokens where the
 * model takes any number of them; else as lfarm_instance_create(). Of a call's tokens it returns
 * the last one's logits, [batch, 1, words]. LFARM_UNSUPPORTED says what a model lacks: token ids
 * (integers [batch, width]) among its inputs, positions and a mask at most beside them, and logits
 * (floats [batch, width, words] or [batch, words]) among its outputs. */
LFARM_API lfarm_status lfarm_generator_create(lfarm_model* model, lfarm_instance** instance,
                                              lfarm_error** error);
/* Told of each token as it is chosen; 0 ends the sequence, another number goes on. */
typedef int (*lfarm_token_callback)(void* context, size_t sequence, int64_t step, int64_t token);
/* Generates tokens after `batch` prompts of `length` ids each, row after row. `options` may be
 * NULL. A model that keeps keys and values holds those of prompt and tokens afterwards, the last
 * token's excepted. */
LFARM_API lfarm_status lfarm_generate(lfarm_instance* instance, const int64_t* prompts,
                                      size_t batch, size_t length, const lfarm_generation* options,
                                      lfarm_token_callback on_token, void* context,
                                      lfarm_error** error);

/* ---- Profiles -------------------------------------------------------------------------------- */

/* One kernel's part of a call. */
typedef struct lfarm_kernel_time {
  const char* name; /* in the plan's machine code; "gemm": a product by the library */
  const char* id;   /* 64 hexadecimal digits that stand for what it computes and how */
  int64_t time_ns;  /* 0 for what was computed when weights were bound */
  int64_t bytes;    /* that it reads and writes, each buffer once */
} lfarm_kernel_time;
/* Where a kernel comes from, as far as weights tell; "" where they do not. */
typedef struct lfarm_kernel_origin {
  const char* modules; /* whose weights it reads: "lm_head", "layers.*.mlp.up_proj" */
  const char* sources; /* lines of the model's source that read them: "model.py:174" */
} lfarm_kernel_origin;
typedef struct lfarm_profile {
  size_t size;                      /* of this struct, set by the library */
  int64_t start_ns;                 /* of CLOCK_MONOTONIC */
  int64_t wall_ns;                  /* of the whole call */
  const lfarm_kernel_time* kernels; /* in order of their runs; NULL: the interpreter ran */
  size_t kernel_count;
  const lfarm_kernel_origin* origins; /* of each of `kernels` */
} lfarm_profile;
typedef void (*lfarm_profiler)(void* context, const lfarm_profile* profile);
/* Tells `profiler` of every call of this instance from now on, on the thread of the call, before it
 * returns; `profile` is valid until then. Each kernel is timed for itself, which takes longer than
 * running them as one, and calls on streams are waited for. NULL: no more, which costs nothing. */
LFARM_API void lfarm_instance_set_profiler(lfarm_instance* instance, lfarm_profiler profiler,
                                           void* context);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
