/* Runs a model once on ones: run MODEL.pt2 SIZE... (one float32 input of these sizes). */
#include <lfarm.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(lfarm_error* error) {
  fprintf(stderr, "run: %s\n", lfarm_error_message(error));
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: run MODEL.pt2 SIZE...\n"), 2;
  int64_t shape[8], elements = 1;
  int rank = argc - 2 < 8 ? argc - 2 : 8;
  for (int k = 0; k < rank; ++k) elements *= shape[k] = atoll(argv[k + 2]);
  float* ones = malloc(elements * sizeof *ones);
  for (int64_t k = 0; k < elements; ++k) ones[k] = 1;
  lfarm_tensor input = {ones, {1, 0}, rank, {2, 32, 1}, shape, NULL, 0};

  lfarm_session* session;
  lfarm_model* model;
  lfarm_instance* instance;
  lfarm_outputs* outputs = NULL;
  lfarm_error* error;
  if (lfarm_session_open(NULL, &session, &error) != LFARM_OK) return fail(error);
  if (lfarm_model_load(session, argv[1], &model, &error) != LFARM_OK) return fail(error);
  if (lfarm_instance_create(model, &instance, &error) != LFARM_OK) return fail(error);
  if (lfarm_instance_run(instance, &input, 1, &outputs, &error) != LFARM_OK) return fail(error);
  const lfarm_tensor* first = lfarm_outputs_get(outputs, 0);
  printf("output 0: rank %d, first element %g\n", first->ndim, *(float*)first->data);

  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(model);
  lfarm_session_free(session);
  free(ones);
  return 0;
}
