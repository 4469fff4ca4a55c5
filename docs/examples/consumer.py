#!/usr/bin/env python3
"""An instance of the-loop gateway in one file: register, fetch, work, report. POSIX, no packages.

    GATEWAY_URL=http://127.0.0.1:8790 INSTANCE=laptop ACTORS=octocat CLAIMS=loop-github-octo-repo-15 \
        PEER_FILE=gateway-peer.json python3 consumer.py
"""
import fcntl, http.client, json, os, random, signal, sys, time, urllib.error, urllib.request, uuid

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8790") + "/api/v1/gateway/"
WAIT = float(os.environ.get("WAIT", "25"))  # seconds that a fetch is held; 0 polls

def work(delivery):
    """Do something with the event, and say what became of it. It may come again: be idempotent."""
    event = delivery["event"]
    print(json.dumps({"seq": delivery["seq"], "kind": event["kind"], "subject": event["subject"]}), flush=True)
    return "delivered"  # or "spawned", "dropped:<reason>", "failed"

def peer_of(file):
    """The id of this installation, made once. The lock keeps a second process from starting."""
    file.seek(0)
    known = json.loads(file.read() or "{}")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{file.name} is in use by process {known.get('pid')}")
    file.truncate(0)
    peer = known.get("peer") or uuid.uuid4().hex
    print(json.dumps({"peer": peer, "pid": os.getpid()}), file=file, flush=True)
    return peer

def call(method, route, me, **fields):
    request = urllib.request.Request(URL + route, json.dumps({**me, **fields}).encode(), method=method,
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT + 15) as answer:
        return json.load(answer)

def register(me):
    call("PUT", "actors", me, actors={"github": os.environ.get("ACTORS", "").split()})
    for subject in os.environ.get("CLAIMS", "").split():
        call("PUT", "claims", me, subject=subject, role="driver")

def loop(me, batch, outcomes):
    cursor, pause, registered = 0, 1, False
    while True:
        try:
            if not registered:  # at the start, and again after every outage
                registered = bool(register(me) or True)
            answer = call("POST", "fetch", me, cursor=cursor, wait=WAIT, commit=outcomes)
            batch += answer["deliveries"]
            cursor, poll_after = answer["cursor"], answer["pollAfter"]  # echoed, never computed
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:  # no usable answer
            said = error.read() if isinstance(error, urllib.error.HTTPError) else b""
            refusal = json.loads(said) if said.startswith(b"{") else {}
            if refusal.get("reason") == "superseded":
                sys.exit("a newer process with this peer file took over")
            unknown = refusal.get("seqs", [])  # commit-undelivered: forget these, and repeat
            outcomes[:] = [outcome for outcome in outcomes if outcome["seq"] not in unknown]
            print(f"not connected: {refusal.get('message', error)}", file=sys.stderr)
            time.sleep(0 if unknown else pause * random.uniform(0.8, 1.2))
            pause, registered = min(pause * 2, 60), bool(unknown)
            continue
        outcomes.clear()
        pause = 1
        while batch:  # within the lease of 60 s; a longer work has to fetch with max=0 meanwhile
            seq, subject, outcome = batch[0]["seq"], batch[0]["event"]["subject"], work(batch[0])
            outcomes.append({"seq": seq, "outcome": outcome})
            is_left = outcome == "failed" and subject != "unassigned"  # what follows it comes again, in order
            batch[:] = [d for d in batch[1:] if not (is_left and d["event"]["subject"] == subject)]
        time.sleep(poll_after)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    peer_file, batch, outcomes = open(os.environ.get("PEER_FILE", "gateway-peer.json"), "a+"), [], []
    me = {"instance": os.environ.get("INSTANCE", "default"), "peer": peer_of(peer_file), "run": uuid.uuid4().hex}
    try:
        loop(me, batch, outcomes)
    finally:  # what was not finished goes back at once; of two outcomes for one delivery the last counts
        call("POST", "commit", me, commit=[{"seq": d["seq"], "outcome": "released"} for d in batch] + outcomes)
