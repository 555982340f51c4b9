lfarm_test(worker_agent LABEL unit SOURCES worker_agent_test.cc COMPONENTS worker/agent)
