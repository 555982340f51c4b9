"""What run.py breaks: one stage after the other, each mutation a small fault of the kind that slips
into code. A mutation is (stage, file, original text, what it becomes); the text stands once in the
file. None as the new text drops a statement. Otherwise both are statements, or both expressions of one type; where
neither is, @ in the new text is true under the mutation.
"""

import compiler_mutations
import farm_mutations
import gpu_mutations
from places import RULES, SEARCH, RUN

# The tests that a stage's faults should not get past, the quickest first; with --wide those of WIDE
# are asked where all of these pass.
STAGES = {
    "archive": ["unit.pt2_archive", "unit.pt2_pickle", "unit.pt2_hostile", "fuzz.archive",
                "fuzz.pickle", "unit.pt2_translate"],
    "translation": ["unit.pt2_translate", "unit.pt2_special_functions", "unit.pt2_hostile"],
    "ir": ["unit.ir", "unit.interpreter", "unit.wire_ir", "fuzz.graph", "unit.pt2_translate"],
    "hash": ["unit.ir", "unit.wire_ir", "unit.search", "fuzz.graph"],
    "roll": ["unit.ir", "unit.search"],
    "egraph": ["unit.egraph", "unit.rules"],
    "rules": ["unit.rules", "unit.search"],
    "regions": ["unit.search", "unit.search_genomes"],
    "load time": ["unit.search", "unit.runtime_arena", "unit.runtime_executor",
                  "unit.search_genomes"],
    "fusion": ["unit.search", "unit.search_genomes"],
    "search": ["unit.search", "unit.search_genomes", "sim.search_quality"],
    "memory": ["unit.search_memory"],
    "cost model": ["unit.search", "unit.search_genomes", "sim.search_quality"],
    "schedule": ["unit.schedule", "unit.ir", "unit.codegen_loops"],
    "codegen": ["unit.ir", "unit.schedule", "golden.codegen_golden", "unit.codegen_loops",
                "unit.codegen_tile", "unit.codegen_attention", "unit.codegen_compile",
                "unit.codegen_ops", "fuzz.codegen_fuzz", "fuzz.graph_differential"],
    "compile": ["unit.codegen_compile", "unit.worker_pipeline"],
    "judge": ["unit.interpreter", "unit.worker_profile", "unit.worker_pipeline"],
    "measure": ["unit.worker_measure", "unit.worker_profile", "unit.worker_pipeline"],
    "executor": ["unit.runtime_arena", "unit.runtime_executor", "unit.runtime_device",
                 "unit.worker_profile", "fuzz.graph_differential"],
    "wire": ["unit.wire_codec", "unit.wire_socket", "unit.wire_security", "unit.wire_ir",
             "fuzz.message", "fuzz.plan", "fuzz.task", "farm.service"],
    "farm": ["unit.farm", "sim.farm_sim"],
    "journal": ["unit.service_parts", "fuzz.journal", "farm.service", "farm.service_process"],
    "searchers": ["unit.search_frames", "farm.steps_apart"],
    "store": ["unit.store", "unit.store_faults", "farm.service"],
    "replicas": ["unit.leadership", "farm.replica_notes", "farm.shared_tier", "unit.clock_jumps",
                 "farm.service", "farm.service_machines", "farm.service_teams",
                 "farm.service_process", "sim.farm_sim"],
    "neighbours": ["unit.sandbox_attempts", "unit.http", "unit.store_damage",
                   "unit.codegen_compile", "unit.worker_pipeline", "farm.service"],
    "gpu loops": ["conformance.codegen_loops_cuda", "conformance.codegen_ops_cuda",
                  "fuzz.codegen_fuzz_cuda", "conformance.codegen_attention_cuda", "farm.cuda_farm"],
    "gpu lines": ["conformance.codegen_loops_cuda", "conformance.codegen_ops_cuda",
                  "fuzz.codegen_fuzz_cuda"],
    "affine offsets": ["unit.affine"],
    "gpu windows": ["conformance.codegen_convolution_cuda", "unit.tensor_map", "unit.codegen_machines"],
    "gpu tile": ["conformance.codegen_tile_cuda", "conformance.codegen_warpgroup_cuda",
                 "conformance.codegen_grouped_cuda", "conformance.codegen_ops_cuda",
                 "fuzz.codegen_fuzz_cuda", "unit.codegen_machines"],
    "gpu attention": ["conformance.codegen_attention_cuda",
                      "conformance.codegen_attention_warpgroups_cuda", "conformance.codegen_ops_cuda",
                      "fuzz.codegen_fuzz_cuda"],
    "gpu compile": ["unit.nvrtc_compiler", "unit.cuda_nvrtc", "unit.worker_binary",
                    "unit.kernel_support", "farm.cli_doctor", "farm.cuda_farm"],
    "gpu runtime": ["unit.runtime_recording", "unit.cuda_device", "unit.cuda_recording", "unit.cuda_boxes", "unit.cuda_contexts",
                    "unit.cuda_counters",
                    "unit.cuda_products", "unit.runtime_executor", "unit.worker_measure",
                    "unit.worker_profile", "unit.cuda_profile", "farm.cuda_farm"],
    "gpu libraries": ["unit.runtime_device", "unit.cuda_nvrtc", "unit.cuda_cublaslt", "unit.cuda_device",
                      "unit.worker_binary", "farm.cli_doctor", "farm.cli_errors"],
    "gpu guests": ["unit.cuda_contexts", "unit.cuda_device", "farm.cuda_library"],
    "client": ["unit.npy_case", "unit.wire_ir", "unit.trust", "farm.cli_errors", "farm.cli_farm"],
}
WIDE = ["unit.ir", "unit.interpreter", "unit.search", "unit.search_genomes", "unit.worker_agent",
        "fuzz.graph_differential", "conformance.conformance", "farm.service", "farm.cli_errors",
        "farm.cli_farm"]

# run.py numbers them in this order.
MUTATIONS = compiler_mutations.MUTATIONS + farm_mutations.MUTATIONS + gpu_mutations.MUTATIONS

# By file and original text: mutations that change nothing that anyone could see, and why.
EQUIVALENT = {
    (SEARCH + "space/region_space.cc", "graph.class_of(node) == cls"):
        "the decoder asks again",
    (SEARCH + "fusion/fusion.cc", "common::combine64(signature(value, root, known), copies_of(value))"):
        "a class is the same outputs in every genome of its region",
    (RULES + "softmax.cc", "attr<ReduceAttr>(max).axes == sum.axes"):
        "maxima along other axes come back through another view, which `restores` refuses",
    (RULES + "attention.cc", "common::attr<common::SoftmaxAttr>(*softmax.node).log"):
        "the lowering is offered, but no attention_form() takes a logarithm",
    (RULES + "reassociation.cc", "contains(a_, *n)"):
        "the label would be a's row, which the result must have and n must not",
    (RULES + "folding.cc", "!end.affine.scale || r_.at_load(end.cls)"):
        "what is computed at load is folded, too, and still computed at load",
    ("common/lowering/body/body_emitter.cc", "fits = fits && w_.level_of_index(v.id) <= loop->base;"):
        "a row under an index of its own loop is kept for nothing: the next loop binds another",
    (RUN + "device/cuda_device.cc", "device, host.size()));\n  return synchronise();"):
        "the driver itself waits for copies to memory that is not pinned",
    ("clients/cli/farm/doctor.cc", "!nvrtc.supports(architecture)"):
        "compiling nothing for it fails then, which says the same",
    ("worker/compile/kernel_cache.cc", "it->second.object == victim"):
        "an entry without its object is not found; it only takes memory",
}
