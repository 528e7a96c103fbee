// Keeps an open page up to date: when the server says that something has changed, the
// page is fetched again and its content replaced, unless somebody is at work in it.
"use strict";
(() => {
  if (!window.EventSource || !window.DOMParser) return;
  const news = document.querySelector(".news");
  let known = document.body.dataset.version;
  const busy = () => {
    const main = document.querySelector("main");
    const at = document.activeElement;
    const selection = document.getSelection();
    return (at && at !== main && main.contains(at)) || main.querySelector("li details[open]") ||
      (selection && !selection.isCollapsed && main.contains(selection.anchorNode));
  };
  const offer = () => {
    news.textContent = "";
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "Something has changed. Show it";
    news.append(link);
    news.hidden = false;
  };
  const renew = async (version) => {
    if (version === known) return;
    if (busy()) return offer();
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return offer();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of ["main", "header.top", "footer"]) {
      const here = document.querySelector(part), there = page.querySelector(part);
      if (here && there && here.innerHTML !== there.innerHTML && !here.contains(document.activeElement)) here.replaceWith(document.adoptNode(there));
    }
    document.title = page.title;
    known = page.body.dataset.version;
    news.hidden = true;
  };
  // A browser opens six connections to a server at most, of all its pages, and would load no seventh
  // one while six listen: so only those that are seen do.
  let source;
  const listen = () => {
    if (document.visibilityState === "hidden") {
      if (source) source.close();
      source = undefined;
    } else if (!source) {
      source = new EventSource("/live");
      source.addEventListener("version", (e) => { renew(e.data).catch(offer); });
    }
  };
  document.addEventListener("visibilitychange", listen);
  listen();
})();
