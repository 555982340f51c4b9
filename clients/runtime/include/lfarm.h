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

/* The numbers up to 5 are lfarm's exit codes. */
typedef enum lfarm_status {
  LFARM_OK = 0,
  LFARM_FAILED = 1,       /* nobody expected it: the message tells */
  LFARM_INVALID = 2,      /* wrong argument, option or file */
  LFARM_UNSUPPORTED = 3,  /* the model uses something that lfarm does not know */
  LFARM_UNAVAILABLE = 4,  /* the farm is away */
  LFARM_VERIFICATION = 5, /* a plan is not one to trust */
  LFARM_TIMED_OUT = 6     /* not yet: the time given was not enough */
} lfarm_status;

typedef struct lfarm_error lfarm_error;
LFARM_API lfarm_status lfarm_error_status(const lfarm_error* error);
/* One line; valid as long as the error is. */
LFARM_API const char* lfarm_error_message(const lfarm_error* error);
LFARM_API void lfarm_error_free(lfarm_error* error);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* These three have the layout of DLPack's DLDevice, DLDataType and DLTensor. */
typedef struct lfarm_device {
  int32_t type; /* 1: host memory */
  int32_t id;
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

/* Fill it with lfarm_options_init() and change what should be otherwise. Strings are copied. */
typedef struct lfarm_options {
  size_t size;      /* of this struct, set by lfarm_options_init() */
  const char* farm; /* endpoint, as tcp://host:7171; NULL: $LFARM_FARM, else this machine's own */
  const char* farm_key; /* the farm's CURVE public key, for farms on other machines */
  const char* keys;     /* file of this client's CURVE keys; NULL: one in the state directory */
  const char* trust;    /* the farm's signing key; NULL: the one it had when it was first met */
  const char* state;    /* directory of keys and cached plans; NULL: as `lfarm --state` */
  const char* device;   /* "auto", "cpu" or "cuda" */
  const char* numerics; /* "strict", or "relaxed": holds while all values are finite */
  int32_t threads;      /* of the host, that share one call; 0: as many as the machine has */
  int64_t deadline_ms;  /* how long lfarm_instance_create() waits for the plan */
  uint64_t cache_bytes; /* bound on cached plans on disk; 0: none */
  uint64_t budget_candidates; /* of a search; 0: the farm's own */
  uint64_t budget_ms;
  uint64_t revocations_ms; /* between looks at what the farm has revoked; 0: none */
} lfarm_options;
LFARM_API void lfarm_options_init(lfarm_options* options);

typedef struct lfarm_session lfarm_session;
/* `options` may be NULL. Asks no farm yet. */
LFARM_API lfarm_status lfarm_session_open(const lfarm_options* options, lfarm_session** session,
                                          lfarm_error** error);
/* Waits for calls of its own to farms to end, not for searches. */
LFARM_API void lfarm_session_free(lfarm_session* session);

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct lfarm_model lfarm_model;
/* `path`: what torch.export.save() wrote. Weights stay mapped, and are read when they are needed.
 */
LFARM_API lfarm_status lfarm_model_load(lfarm_session* session, const char* path,
                                        lfarm_model** model, lfarm_error** error);
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
  size_t size;         /* of this struct, set by the caller */
  const char* id;      /* 64 hexadecimal digits */
  const char* target;  /* the machine it is for, as cpu-x86_64-avx512 */
  const char* farm;    /* that found it */
  int64_t best_ns;     /* one run, as the farm measured it */
  int64_t baseline_ns; /* one run of the plain lowering, measured beside it */
  int64_t candidates;  /* that were tried */
  int64_t created_ns;  /* since 1970 */
} lfarm_plan;
/* 1 and the plan that calls run, unless `plan` is NULL; 0: the interpreter computes them. */
LFARM_API int lfarm_instance_plan(const lfarm_instance* instance, lfarm_plan* plan);
/* Waits until calls run a plan. LFARM_TIMED_OUT when none came in time; else what has gone wrong.
 * A farm that is away is asked again, so that waiting once more may help. */
LFARM_API lfarm_status lfarm_instance_wait(lfarm_instance* instance, int64_t timeout_ms,
                                           lfarm_error** error);

/* What a call returned. */
typedef struct lfarm_outputs lfarm_outputs;

/* One call. `inputs`: one for each tensor that the model takes, in order, in host memory; those
 * that the model mutates are written. `*outputs` is NULL, or what an earlier call of this instance
 * gave: it is replaced, and what it held is gone. LFARM_INVALID names the input that does not fit.
 */
LFARM_API lfarm_status lfarm_instance_run(lfarm_instance* instance, const lfarm_tensor* inputs,
                                          size_t count, lfarm_outputs** outputs,
                                          lfarm_error** error);
LFARM_API size_t lfarm_outputs_count(const lfarm_outputs* outputs);
/* NULL where the model returns None. Valid as long as the outputs are. */
LFARM_API const lfarm_tensor* lfarm_outputs_get(const lfarm_outputs* outputs, size_t index);
LFARM_API void lfarm_outputs_free(lfarm_outputs* outputs);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
