// The source of the story: this page's server, or the page itself.

const pause = (millis) => new Promise((done) => setTimeout(done, millis));

/** The server. The page requests changes again and again, and the server answers as soon as there are some. */
function liveSource({ token, can_act: canAct }) {
  const refused = async (answer) => {
    const said = await answer.json().catch(() => null);
    return new Error(said?.error ?? `the answer was ${answer.status}`);
  };
  return {
    live: true,
    canAct,
    async follow(take, connected) {
      let since = 0;
      let run = null;
      let failures = 0;
      for (;;) {
        try {
          const answer = await fetch(run === null ? "story" : `story?since=${since}&run=${run}`);
          if (!answer.ok) throw await refused(answer);
          const overview = await answer.json();
          // Another run has another token, which only a reloaded page contains.
          if (run !== null && overview.run !== run) return location.reload();
          ({ run, sequence: since } = overview);
          failures = 0;
          connected(true);
          take(overview);
          await pause(80);
        } catch (error) {
          connected(false, error);
          failures += 1;
          await pause(Math.min(500 * failures, 5000));
        }
      }
    },
    async detail(number) {
      const answer = await fetch(`message/${number}`);
      if (!answer.ok) throw await refused(answer);
      return answer.json();
    },
    async samples() {
      const answer = await fetch("samples");
      if (!answer.ok) throw await refused(answer);
      return answer.json();
    },
    async act(what, request) {
      const headers = { "content-type": "application/json", "x-sqs-once-token": token };
      const answer = await fetch(what, { method: "POST", headers, body: JSON.stringify(request) });
      if (!answer.ok) throw await refused(answer);
      return answer.json();
    },
  };
}

/** The page itself, which contains the whole story. */
function reportSource({ overview, details }) {
  return {
    live: false,
    canAct: false,
    async follow(take) {
      take(overview);
    },
    async detail(number) {
      return details[number];
    },
  };
}
