// What the labels of a view mean, for readers who see a farm for the first time.

import {h} from './dom.js';

const MEANINGS = {
  'Job': 'One search for the fastest plan of one model, on one target.',
  'Plan': 'Compiled kernels, and the calls that compute the model with them. Programs run it in the ' +
    'place of the model.',
  'Worker': 'A process on a machine with the target: it compiles candidates, checks their outputs ' +
    'and measures their times.',
  'Candidates': 'Programs that may be the fastest: how many have been tried, and how many the job ' +
    'may try.',
  'Best': 'The least time of one run of the whole model so far, as measured.',
  'Plain plan': 'The plan before any search, which the cost model chooses. At the end of a search it ' +
    'and the best are measured in turns, and the gain is of these times.',
  'Gain': 'The plain plan\'s time divided by the best time.',
  'Expected': 'The time of the whole model as estimated from the parts that were measured.',
  'Predicted': 'The time by the cost model, before anything ran.',
  'Measured': 'The time on the worker.',
  'Target': 'The instruction set, or the GPU architecture, that the code is made for.',
  'Tenant': 'A team. Each has its plans and its quota.',
  'Workers wanted': 'How many workers the waiting tasks could keep busy.',
  'Tasks with workers': 'A task is one candidate to compile and measure. Those that workers have, ' +
    'of all that are open.',
  'Compiler epoch': 'The version of what makes plans. Plans of other epochs are not used.',
  'Handshakes denied': 'Connections whose key this farm does not know.',
  'Outcome': 'ok: right outputs and a measured time. All others cannot become the plan.',
  'Part': 'The model is cut into regions, which are searched apart. whole: the program of all.',
  'Found by': 'The strategy of the search that proposed the candidate.',
  'Program': 'The fingerprint of the candidate\'s program. Equal programs are measured once.',
  'Kernel': 'One compiled function, and its fingerprint.',
  'What': 'How the kernel\'s code was made: as loops, as tiles of a matrix product, or by a library.',
  'Schedule': 'The numbers chosen for the kernel, such as tile sizes and unrolling.',
  'Calls': 'How often one run of the model calls the kernel. At load: once, to prepare weights.',
  'Weights of': 'The modules of the model whose weights the kernel reads.',
  'Key': 'The name under which the plan is found: graph, target, numerics and compiler epoch.',
  'Graph': 'The hash of the model\'s computation, without its weights.',
  'Numerics': 'strict: every rewriting of the model holds for all values. relaxed: some hold only ' +
    'while all values are finite.',
  'Compiled alike by': 'Another worker, which compiled the plan to the same bytes.',
  'Hit': 'A plan that was there when it was asked for, so that nothing was searched.',
  'Tier': 'A place where plans and kernels are looked for, the nearest first.',
  'Searches saved': 'The time that searches would have taken for what was served from the cache.',
  'Workers\' time, 24 h': 'What the tenant\'s jobs used of workers; a quota bounds it.',
};

// A list that opens on demand. `labels` are keys of MEANINGS.
export function words(...labels) {
  return h('details', {class: 'words'}, h('summary', {}, 'What the words mean'),
    h('dl', {class: 'facts'}, labels.map((label) => {
      if (!(label in MEANINGS)) throw new Error(`no meaning of ${label}`);
      return h('div', {}, h('dt', {}, label), h('dd', {}, MEANINGS[label]));
    })));
}
