"""REST of Actions and checks."""

import io
import zipfile

from answers import Answer, as_json, message, redirect, refuse
from rest_forms import artifact_form, check_form, job_form, run_form, workflow_form


def find(things, number):
    for thing in things:
        if thing.id == int(number):
            return thing
    return refuse(404, "Not Found")


def zipped(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


def runs(call, workflow=None):
    branch = call.request.argument("branch")
    found = [run for run in call.repository.runs if branch in (None, run.head_branch)]
    found = [run for run in found if workflow is None or str(run.workflow.id) == workflow]
    return call.page(found, run_form, "workflow_runs")


def run(call, number):
    return as_json(200, run_form(find(call.repository.runs, number), call.site))


def jobs(call, number):
    found = find(call.repository.runs, number)
    return call.page([job for job in call.repository.check_runs if job.run is found], job_form, "jobs")


def job(call, number):
    return as_json(200, job_form(find(call.repository.check_runs, number), call.site))


def logs(call, number):
    found = find(call.repository.runs, number)
    data = zipped("build/1_Set up job.txt", found.log)
    host = "results-receiver.actions.githubusercontent.com"
    return redirect(302, call.world.store(data, host, "application/zip", "logs.zip"))


def job_logs(call, number):
    found = find(call.repository.check_runs, number).run
    return redirect(302, call.world.store(found.log, "productionresultssa0.blob.core.windows.net", "text/plain", "job.txt"))


def rerun(call, number):
    find(call.repository.runs, number).attempt += 1
    return as_json(201, {})


def cancel(call, number):
    found = find(call.repository.runs, number)
    found.status, found.conclusion = "completed", "cancelled"
    return as_json(202, {})


def delete(call, number):
    call.repository.runs.remove(find(call.repository.runs, number))
    return Answer(204)


def run_artifacts(call, number):
    found = find(call.repository.runs, number)
    return call.page([a for a in call.repository.artifacts if a.run is found], artifact_form, "artifacts")


def artifacts(call):
    return call.page(call.repository.artifacts, artifact_form, "artifacts")


def artifact_zip(call, number):
    found = find(call.repository.artifacts, number)
    data = zipped(f"{found.name}.txt", found.data)
    host = "productionresultssa0.blob.core.windows.net"
    return redirect(302, call.world.store(data, host, "application/zip", f"{found.name}.zip"))


def workflows(call):
    return call.page(call.repository.workflows, workflow_form, "workflows")


def workflow_of(call, name):
    for found in call.repository.workflows:
        if name in (str(found.id), found.path.split("/")[-1]):
            return found
    return refuse(404, "Not Found")


def workflow(call, name):
    return as_json(200, workflow_form(workflow_of(call, name), call.site))


def dispatch(call, name):
    workflow_of(call, name)
    if call.repository.git.resolve(call.body.get("ref", "")) is None:
        return message(422, f"No ref found for: {call.body.get('ref')}")
    return Answer(204)


def check_runs(call, revision=None):
    oid = call.repository.git.resolve(revision) if revision else None
    found = [check for check in call.repository.check_runs if oid in (None, check.head_sha)]
    return call.page(found, check_form, "check_runs")


def check_run(call, number):
    return as_json(200, check_form(find(call.repository.check_runs, number), call.site))


def make_check_run(call):
    made = call.world.add("CheckRun", call.repository, name=call.body["name"], head_sha=call.body["head_sha"], run=None,
                          status=call.body.get("status", "queued").upper(), conclusion=None)
    made.conclusion = call.body["conclusion"].upper() if call.body.get("conclusion") else None
    call.repository.check_runs.append(made)
    return as_json(201, check_form(made, call.site))


def empty(call, *_):
    return as_json(200, [])


def no_secrets(call):
    return as_json(200, {"total_count": 0, "secrets": []})


RUN = "/actions/runs/([0-9]+)"
ROUTES = [
    ("GET", "/actions/runs", runs), ("GET", "/actions/workflows/([0-9]+)/runs", runs), ("GET", RUN, run),
    ("GET", f"{RUN}/jobs", jobs), ("GET", f"{RUN}/attempts/[0-9]+/jobs", jobs), ("GET", "/actions/jobs/([0-9]+)", job),
    ("GET", f"{RUN}/logs", logs), ("GET", "/actions/jobs/([0-9]+)/logs", job_logs), ("POST", f"{RUN}/rerun", rerun),
    ("POST", f"{RUN}/rerun-failed-jobs", rerun), ("POST", f"{RUN}/cancel", cancel), ("DELETE", RUN, delete),
    ("GET", f"{RUN}/artifacts", run_artifacts), ("GET", "/actions/artifacts", artifacts),
    ("GET", "/actions/artifacts/([0-9]+)/zip", artifact_zip), ("GET", "/actions/workflows", workflows),
    ("GET", "/actions/workflows/([^/]+)", workflow), ("POST", "/actions/workflows/([^/]+)/dispatches", dispatch),
    ("GET", "/commits/([^/]+)/check-runs", check_runs), ("GET", "/check-runs/([0-9]+)", check_run),
    ("POST", "/check-runs", make_check_run), ("GET", "/check-runs/([0-9]+)/annotations", empty),
    ("GET", "/actions/secrets", no_secrets),
]
